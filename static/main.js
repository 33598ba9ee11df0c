import { describe } from "./about.js";
import { ApiKey } from "./api_key.js";
import { listenToGamepad } from "./gamepad.js";
import { listenToKeyboard } from "./keyboard.js";
import { HeldKeys } from "./keys.js";
import { fetchModel } from "./models.js";
import { OfferedWalks } from "./offered.js";
import { Pad } from "./pads.js";
import { PromptBox } from "./prompt_box.js";
import { fork } from "./rest.js";
import { ScenePicker } from "./scenes.js";
import { Stage } from "./stage.js";
import { LINK_TEXTS, sentence } from "./states.js";
import { Timeline } from "./timeline.js";
import { SavedWalks } from "./walks.js";
import { clockText, secondsBefore } from "./words.js";

/** How the page was opened: `?decoder=webcodecs|mse|jpeg`, `?scene=NAME`, `?seed=NUMBER`, `?fps=NUMBER`. */
const options = new URLSearchParams(location.search);
const SAMPLE_MS = 250;
const LOADING_MS = 1000;
const RESTART_MS = 350; // arrows step through the places; only where they rest a walk starts

/** @param {string} id */
const element = (id) => document.getElementById(id);

/** Joins the parts of the page: what the visitor does goes to the world that has the focus. */
class Page {
  stage = new Stage(element("panes"), element, {
    onChange: (pane) => this.#changed(pane),
    onAgain: (pane) => this.play(pane),
    onPlayerFailed: (pane, text) => this.#playerFailed(pane, text),
    onBlur: (pane) => this.#left(pane),
    onFocus: () => this.#show(),
    onClose: (pane) => this.#close(pane),
  });
  key = new ApiKey({ form: element("key-form"), input: element("key") }, () => this.#pane.part("veil-action").click());
  held = new HeldKeys((actions) => this.#heldChanged(actions));
  pads = [new Pad(element("move-pad"), this.held), new Pad(element("look-pad"), this.held)];
  prompt = new PromptBox({
    form: element("prompt-form"),
    text: element("prompt"),
    send: element("prompt-send"),
    status: element("prompt-status"),
  });
  timeline = new Timeline(
    {
      root: element("timeline"),
      strip: element("strip"),
      slider: element("moment"),
      text: element("moment-text"),
    },
    (moment) => this.#look(moment),
  );
  scenes = new ScenePicker(
    {
      grid: element("scenes"),
      upload: element("upload"),
      problem: element("upload-problem"),
      dropZones: [element("upload-label"), element("panes")],
    },
    (choice) => this.#chosen(choice),
  );
  walks = new SavedWalks();
  offered = new OfferedWalks(this.stage, this.key, {
    onContinue: () => this.#toScreen(),
    onAnew: () => this.#startAnew(),
  });

  #actions = [];
  #choice;
  #restart = 0;

  async open() {
    listenToKeyboard(this.held, () => this.#pane.session.open);
    listenToGamepad(this.held);
    this.#listen("reset", () => this.#act((pane) => pane.session.reset()));
    this.#listen("stop", () => this.#pane.session.stop());
    this.#listen("back", () => this.#goBack());
    this.#listen("branch", () => this.#branch());
    this.#listen("now", () => this.#act(() => this.timeline.live()));
    this.#listen("fullscreen", () => this.#fillScreen());
    element("fullscreen").hidden = !document.fullscreenEnabled;
    window.addEventListener("keydown", ({ key }) => key === "Escape" && this.timeline.live());
    window.addEventListener("pagehide", () => this.#save(true));
    document.addEventListener("visibilitychange", () => document.hidden && this.#save(true));
    setInterval(() => this.stage.panes.forEach((pane) => pane.sample()), SAMPLE_MS);
    this.offered.take(await this.walks.load());
    await this.load();
  }

  /** Ask what is served, and offer it; a model that still loads is waited for. */
  async load() {
    const { veil } = this.#pane;
    try {
      this.#offer(await fetchModel(this.key.value));
    } catch (error) {
      this.key.ask(error.status === 401);
      if (error.status === 503) {
        veil.show({ title: "Not ready yet", text: sentence(error.message), busy: true });
        setTimeout(() => this.load(), LOADING_MS);
        return;
      }
      const title = error.status === 401 ? "An API key is needed" : "Not ready";
      const text = error.status ? sentence(error.message) : "The server can't be reached.";
      veil.show({ title, text, action: { label: "Try again", run: () => this.load() } });
    }
  }

  get #pane() {
    return this.stage.focused;
  }

  #listen(id, act) {
    element(id).addEventListener("click", act);
  }

  /** @param {import("./models.js").Model} model */
  #offer(model) {
    describe(model, element);
    this.scenes.fill(model, options.get("scene"));
    if (this.offered.open) this.offered.show();
    else if (!this.#choice)
      this.#pane.veil.show({ title: "No place yet", text: "Choose an image of yours to start from." });
  }

  #startAnew() {
    this.#forgetOffered();
    this.#pane.prompt.draft = this.#choice?.prompt ?? "";
    this.#pane.prepare("", []);
    this.#showChoice(this.#pane);
  }

  #forgetOffered() {
    this.offered.forget();
    this.#save();
  }

  /** @param {import("./scenes.js").Choice} choice */
  #chosen(choice) {
    const again = choice === this.#choice;
    const first = this.#choice === undefined;
    this.#choice = choice;
    if (this.offered.open && (first || again)) return;
    const pane = this.#pane;
    if (!again) {
      pane.prompt.draft = choice.prompt;
      this.prompt.show(pane.prompt);
    }
    if (pane.idle) this.#showChoice(pane);
    else if (!again) {
      clearTimeout(this.#restart);
      this.#restart = setTimeout(() => this.play(pane), RESTART_MS);
    }
  }

  #showChoice(pane) {
    const { title, prompt, preview } = this.#choice;
    pane.viewer.close();
    if (preview) pane.screen.show(preview);
    else pane.screen.clear();
    const action = { label: "Play", run: () => this.play(pane) };
    pane.veil.show({ title, text: prompt, picture: preview !== undefined, action });
  }

  /** @param {import("./pane.js").Pane} pane where a new walk begins */
  async play(pane) {
    let format;
    this.#forgetOffered();
    try {
      format = await pane.viewer.choose(options.get("decoder"));
    } catch (error) {
      pane.refuse(error.message);
      return;
    }
    const seed = Number(options.get("seed") ?? Math.floor(Math.random() * 2 ** 31));
    const start = { prompt: pane.prompt.begin(), ...this.#choice.start, format, seed, ...this.key.fields };
    if (options.has("fps")) start.fps = Number(options.get("fps"));
    pane.play(start, this.#choice.title);
    this.#toScreen();
  }

  /** Something about a pane is to be shown differently. */
  #changed(pane) {
    if (pane.detail.code === "unauthorized") this.key.ask(true);
    this.stage.name();
    this.#save();
    if (pane === this.#pane) this.#show();
  }

  /** What the page shows of the pane that has the focus. */
  #show() {
    const pane = this.#pane;
    const { state, open } = pane.session;
    const link = element("link");
    link.dataset.state = state;
    if (link.textContent !== LINK_TEXTS[state]) link.textContent = LINK_TEXTS[state];
    element("reset").disabled = !open;
    element("stop").disabled = pane.idle || state === "taken";
    this.prompt.show(pane.prompt);
    this.timeline.follow(pane.moments, pane.config);
    element("back").disabled = !open;
    element("branch").disabled = !pane.session.walk || this.stage.full;
    element("branch").title = this.stage.full ? "Two worlds are open: close one first." : "";
  }

  #look(moment) {
    element("now-actions").hidden = moment !== undefined;
    element("past-actions").hidden = moment === undefined;
    this.#pane.look(moment);
  }

  #goBack() {
    const moment = this.timeline.past;
    this.#act((pane) => pane.rewind(moment));
    this.timeline.live();
  }

  /** Open another world beside this one that shares its past up to here. */
  async #branch() {
    const source = this.#pane;
    const moment = this.timeline.past;
    const { walk } = source.session;
    const { saved } = source;
    element("branch").disabled = true;
    try {
      const made = await fork(walk.session_id, moment.chunk, this.key.value);
      const at = clockText(secondsBefore(source.config, moment.chunk));
      const own = {
        walk: { ...made, last: -1 },
        title: `Branch at ${at}`,
        prompt: moment.prompt,
        moments: saved.moments.filter(({ chunk }) => chunk <= moment.chunk),
      };
      this.timeline.live();
      this.stage.add().resume({ ...saved, ...own }, this.key.fields);
      this.#toScreen();
    } catch (error) {
      source.notice.show(`No branch: ${sentence(error.message)}`);
    } finally {
      this.#show();
    }
  }

  /** @param {import("./pane.js").Pane} pane loses the keys */
  #left(pane) {
    this.held.clear();
    this.timeline.live();
    pane.look(undefined);
  }

  #close(pane) {
    if (pane === this.#pane) this.#left(pane);
    this.stage.remove(pane);
    this.#save(true);
    this.#toScreen();
  }

  #save(pictures = false) {
    if (this.offered.open) return;
    const saved = this.stage.panes.map((pane) => pane.saved).filter(Boolean);
    this.walks.save(saved);
    if (pictures) this.walks.savePictures(saved);
  }

  /** @param {(pane: import("./pane.js").Pane) => void} act and go on in the picture */
  #act(act) {
    act(this.#pane);
    this.#toScreen();
  }

  #toScreen() {
    this.#pane.part("screen").focus({ preventScroll: true });
    element("panes").scrollIntoView({ block: "nearest" });
  }

  async #fillScreen() {
    const screen = this.#pane.part("screen");
    try {
      await screen.requestFullscreen();
      screen.focus();
    } catch (error) {
      this.#pane.notice.show(`Full screen was refused: ${error.message}`);
    }
  }

  /** @param {string[]} actions */
  #heldChanged(actions) {
    const pressed = actions.some((action) => !this.#actions.includes(action));
    this.#actions = actions;
    for (const pad of this.pads) pad.light(actions);
    if (pressed) this.timeline.live();
    this.#pane.hold(actions, pressed);
  }

  #playerFailed(pane, text) {
    if (options.has("decoder")) return pane.refuse(text);
    pane.notice.show(`${sentence(text)} Trying the next way to show the picture.`);
    return this.play(pane);
  }
}

await new Page().open();
