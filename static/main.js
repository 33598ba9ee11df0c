import { heldKeysEvent } from "./camera.js";
import { listenToGamepad } from "./gamepad.js";
import { listenToKeyboard } from "./keyboard.js";
import { HeldKeys } from "./keys.js";
import { fetchModel } from "./models.js";
import { Notice } from "./notice.js";
import { Pad } from "./pads.js";
import { Viewer } from "./player/viewer.js";
import { PromptBox } from "./prompt.js";
import { ScenePicker } from "./scenes.js";
import { Screen } from "./screen.js";
import { Session } from "./session.js";
import { LINK_TEXTS, sentence, veilOf } from "./states.js";
import { Stats } from "./stats.js";
import { Veil } from "./veil.js";

/** How the page was opened: `?decoder=webcodecs|mse|jpeg`, `?scene=NAME`, `?seed=NUMBER`, `?fps=NUMBER`. */
const options = new URLSearchParams(location.search);
const SAMPLE_MS = 250;
const LOADING_MS = 1000;
const RESTART_MS = 350; // arrows step through the places; only where they rest a walk starts

/** @param {string} id */
const element = (id) => document.getElementById(id);

/** Joins the parts of the page: what the visitor does, what the server says, and what is shown. */
class Page {
  screen = new Screen(element("canvas"), element("video"));
  viewer = new Viewer(this.screen, {
    onShown: (chunk, now) => this.#shown(chunk, now),
    onFailed: (text) => this.#viewerFailed(text),
  });
  stats = new Stats(element);
  notice = new Notice(element("notice"));
  session = new Session({
    onState: (state, detail) => this.#stateChanged(state, detail),
    onStart: (message) => this.#started(message),
    onChunk: (meta, bytes) => this.#received(meta, bytes),
    onMessage: (message) => this.#heard(message),
  });
  held = new HeldKeys((actions) => this.#heldChanged(actions));
  pads = [new Pad(element("move-pad"), this.held), new Pad(element("look-pad"), this.held)];
  prompt = new PromptBox(
    {
      form: element("prompt-form"),
      text: element("prompt"),
      send: element("prompt-send"),
      status: element("prompt-status"),
    },
    (prompt) => this.session.interact({ prompt }),
  );
  veil = new Veil({
    veil: element("veil"),
    title: element("veil-title"),
    text: element("veil-text"),
    fine: element("veil-fine"),
    action: element("veil-action"),
  });
  scenes = new ScenePicker(
    {
      grid: element("scenes"),
      upload: element("upload"),
      problem: element("upload-problem"),
      dropZones: [element("upload-label"), element("screen")],
    },
    (choice) => this.#chosen(choice),
  );

  #actions = [];
  #resend = false;
  #shownChunks = 0;
  #choice;
  #restart = 0;
  #opening = { prompt: "" };

  async open() {
    listenToKeyboard(this.held, () => this.session.open);
    listenToGamepad(this.held);
    element("reset").addEventListener("click", () => this.#reset());
    element("stop").addEventListener("click", () => this.session.stop());
    element("fullscreen").hidden = !document.fullscreenEnabled;
    element("fullscreen").addEventListener("click", () => this.#fillScreen());
    element("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      element("veil-action").click();
    });
    setInterval(() => this.#sample(), SAMPLE_MS);
    await this.load();
  }

  /** Ask what is served, and offer it; a model that still loads is waited for. */
  async load() {
    try {
      this.#offer(await fetchModel(element("key").value));
    } catch (error) {
      element("key-form").hidden = error.status !== 401;
      if (error.status === 503) {
        this.veil.show({ title: "Not ready yet", text: sentence(error.message), busy: true });
        setTimeout(() => this.load(), LOADING_MS);
        return;
      }
      const title = error.status === 401 ? "An API key is needed" : "Not ready";
      const text = error.status ? sentence(error.message) : "The server can't be reached.";
      this.veil.show({ title, text, action: { label: "Try again", run: () => this.load() } });
    }
  }

  /** @param {import("./models.js").Model} model */
  #offer(model) {
    document.documentElement.style.setProperty("--ratio", String(model.width / model.height));
    element("model").textContent = model.id;
    if (model.description) element("about-text").textContent = model.description;
    const seconds = (model.chunk_frames / model.fps).toFixed(2);
    element("about-numbers").textContent =
      `${model.width} × ${model.height} pixels at ${model.fps} per second, made ${model.chunk_frames} at a time: ` +
      `what you press takes effect with the next chunk, every ${seconds} s. The picture is scaled up for your screen.`;
    this.scenes.fill(model, options.get("scene"));
    if (!this.#choice)
      this.veil.show({ title: "No place yet", text: "Choose an image of yours to start from." });
  }

  /** @param {import("./scenes.js").Choice} choice */
  #chosen(choice) {
    const again = choice === this.#choice;
    this.#choice = choice;
    if (!again) this.prompt.value = choice.prompt;
    if (["idle", "ended", "failed"].includes(this.session.state)) this.#showChoice();
    else if (!again) {
      clearTimeout(this.#restart);
      this.#restart = setTimeout(() => this.play(), RESTART_MS);
    }
  }

  #showChoice() {
    this.viewer.close();
    if (this.#choice.preview) this.screen.show(this.#choice.preview);
    else this.screen.clear();
    const { title, prompt, preview } = this.#choice;
    const action = { label: "Play", run: () => this.play() };
    this.veil.show({ title, text: prompt, picture: preview !== undefined, action });
  }

  async play() {
    let format;
    try {
      format = await this.viewer.choose(options.get("decoder"));
    } catch (error) {
      this.#stateChanged("failed", { text: error.message });
      return;
    }
    const seed = Number(options.get("seed") ?? Math.floor(Math.random() * 2 ** 31));
    this.#opening = { prompt: this.prompt.begin(), ...this.#choice.start, format, seed };
    if (options.has("fps")) this.#opening.fps = Number(options.get("fps"));
    const key = element("key").value;
    this.session.play(key ? { ...this.#opening, api_key: key } : this.#opening);
    element("screen").focus({ preventScroll: true });
  }

  #stateChanged(state, detail) {
    const link = element("link");
    link.dataset.state = state;
    if (link.textContent !== LINK_TEXTS[state]) link.textContent = LINK_TEXTS[state];
    element("reset").disabled = !this.session.open;
    element("stop").disabled = !["connecting", "queued", "opening", "playing", "lost"].includes(state);
    if (state === "queued") this.stats.queued(detail);
    if (["lost", "ended", "failed"].includes(state)) this.#walkOver();
    if (detail.code === "unauthorized") element("key-form").hidden = false;
    const run = { again: () => this.play(), retry: () => this.session.retryNow() };
    const content = veilOf(state, detail, run);
    if (content) this.veil.show(content);
  }

  #sample() {
    const { player } = this.viewer;
    if (player && this.session.open) this.stats.sample(player, performance.now());
  }

  #walkOver() {
    this.prompt.ended();
    this.stats.restart();
    this.#resend = false;
  }

  #started({ config }) {
    this.stats.restart();
    this.stats.format(this.viewer.label, config);
    this.viewer.start(config);
    this.prompt.started(this.#opening.prompt);
    if (this.#actions.length) this.#sendHeld();
    element("screen").dataset.chunks = "0";
  }

  #received(meta, bytes) {
    this.stats.arrived(meta);
    this.prompt.arrived(meta);
    if (this.#resend) this.#sendHeld();
    this.viewer.push(meta, bytes);
  }

  #shown(chunk, now) {
    this.stats.shown(chunk, now);
    const { dataset } = element("screen");
    dataset.chunks = String(Number(dataset.chunks) + 1);
    dataset.player = this.viewer.name;
    if (this.session.state === "playing") this.veil.hide();
  }

  /** @param {Record<string, any>} message */
  #heard(message) {
    switch (message.type) {
      case "session.reset":
        return this.#wasReset();
      case "session.interaction.rejected":
        this.prompt.rejected(message);
        if (message.code === "queue_full") this.#resend = true;
        else this.notice.show(message.message);
        return undefined;
      case "session.warning":
        return this.notice.show(message.message);
      case "session.draining":
        return this.notice.show(
          `The server stops for maintenance in ${Math.round(message.grace_seconds)} s.`,
        );
      case "session.evicted":
        return this.notice.show("The server made room for others; this walk was put aside.");
      default:
        return undefined;
    }
  }

  #reset() {
    this.session.reset();
    element("screen").focus({ preventScroll: true });
  }

  async #fillScreen() {
    try {
      await element("screen").requestFullscreen();
      element("screen").focus();
    } catch (error) {
      this.notice.show(`Full screen was refused: ${error.message}`);
    }
  }

  #wasReset() {
    this.viewer.reset();
    this.stats.restart();
    this.prompt.repeat(this.#opening.prompt);
    if (this.#actions.length) this.#sendHeld();
    this.notice.show("Back at the first frame.");
  }

  /** @param {string[]} actions */
  #heldChanged(actions) {
    const pressed = actions.some((action) => !this.#actions.includes(action));
    this.#actions = actions;
    for (const pad of this.pads) pad.light(actions);
    this.#sendHeld(pressed);
  }

  #sendHeld(pressed = false) {
    const now = performance.now();
    this.#resend = false;
    const event = this.session.interact(heldKeysEvent(this.#actions, now));
    if (event !== undefined && pressed) this.stats.latency.pressed(event, now);
  }

  #viewerFailed(text) {
    this.session.abandon();
    if (options.has("decoder")) {
      this.#stateChanged("failed", { text });
      return;
    }
    this.notice.show(`${sentence(text)} Trying the next way to show the picture.`);
    this.play();
  }
}

await new Page().open();
