import { heldKeysEvent } from "./camera.js";
import { keptPicture, Moments } from "./moments.js";
import { Notice } from "./notice.js";
import { Viewer } from "./player/viewer.js";
import { Prompt } from "./prompt.js";
import { Screen } from "./screen.js";
import { Session } from "./session.js";
import { noticeOf, veilOf } from "./states.js";
import { Stats } from "./stats.js";
import { Veil } from "./veil.js";
import { clockText, secondsBefore } from "./words.js";

const FEW = 4; // chunks

/**
 * @typedef {object} PaneEvents
 * @property {(pane: Pane) => void} onChange its state, prompt or timeline is to be shown differently
 * @property {(pane: Pane) => void} onAgain the visitor wants another walk here
 * @property {(pane: Pane, text: string) => void} onPlayerFailed the next choice of a player is another one
 */

/** One world on the page: its picture, its session, its past, and what is said over it. */
export class Pane {
  moments = new Moments();
  /** @type {Record<string, any> | undefined} of `video.start` */
  config;
  title = "";
  /** @type {Record<string, any>} the last state's detail */
  detail = {};
  #opening = { prompt: "" };
  #actions = [];
  #resend = false;
  /** @type {Map<number, { chunk: number, prompt: string }>} by transport chunk: what is not yet shown */
  #coming = new Map();
  #last = -1; // the newest transport chunk that was shown

  /**
   * @param {HTMLElement} element
   * @param {(id: string) => HTMLElement} figure finds the page's elements for what is measured
   * @param {PaneEvents} events
   */
  constructor(element, figure, events) {
    this.element = element;
    this.events = events;
    this.part = (name) => element.querySelector(`[data-part="${name}"]`);
    this.screen = new Screen(this.part("canvas"), this.part("video"));
    this.stats = new Stats(figure);
    this.notice = new Notice(this.part("notice"));
    this.prompt = new Prompt(
      (prompt, again) => this.session.interact({ prompt }, again),
      () => events.onChange(this),
    );
    const names = ["title", "text", "fine", "action", "other"];
    const parts = names.map((name) => [name, this.part(`veil-${name}`)]);
    this.veil = new Veil({ veil: this.part("veil"), ...Object.fromEntries(parts) });
    this.viewer = new Viewer(this.screen, {
      onShown: (chunk, now) => this.#shown(chunk, now),
      onFailed: (text) => this.#playerFailed(text),
    });
    this.session = new Session({
      onState: (state, detail) => this.#stateChanged(state, detail),
      onStart: (message, resumed) => this.#started(message, resumed),
      onChunk: (meta, bytes) => this.#received(meta, bytes),
      onMessage: (message) => this.#heard(message),
    });
  }

  /** @returns {boolean} whether nothing goes on here, nor is about to */
  get idle() {
    return ["idle", "ended", "failed", "gone"].includes(this.session.state);
  }

  /** @returns {import("./walks.js").SavedWalk | undefined} what the page needs to go on here after a reload */
  get saved() {
    const { walk } = this.session;
    if (!walk) return undefined;
    const unseen = walk.last - this.#last > FEW; // a page that was hidden: what it missed is of no use
    return {
      walk: unseen ? walk : { ...walk, last: this.#last },
      title: this.title,
      opening: this.#opening.prompt,
      prompt: this.prompt.draft,
      player: this.viewer.name,
      moments: this.moments.list,
    };
  }

  /**
   * Begin a walk.
   * @param {Record<string, any>} start the fields of `session.start`
   * @param {string} title of the place
   */
  play(start, title) {
    this.viewer.close();
    this.title = title;
    this.config = undefined;
    this.moments = new Moments();
    this.#opening = start;
    this.#last = -1;
    this.session.play(start);
  }

  /**
   * Go on with a walk that is there: a branch, or one of before the page was loaded again.
   * @param {import("./walks.js").SavedWalk} saved
   * @param {{ api_key?: string }} key
   */
  resume({ walk, title, opening, prompt, player, moments }, key) {
    this.prepare(title, moments);
    this.viewer.use(player);
    this.prompt.adopt(prompt);
    this.#opening = { prompt: opening };
    this.#last = walk.last;
    this.session.resume(walk, key);
  }

  /**
   * Show the past of a walk that is to be gone on with.
   * @param {string} title
   * @param {import("./moments.js").Moment[]} moments
   */
  prepare(title, moments) {
    this.title = title;
    this.moments = new Moments(moments);
    const newest = moments.at(-1);
    if (newest) this.screen.show(newest.picture);
    this.events.onChange(this);
  }

  /**
   * @param {string[]} actions what is held now
   * @param {boolean} pressed whether a key went down
   */
  hold(actions, pressed) {
    this.#actions = actions;
    this.#sendHeld(pressed);
  }

  /** @param {import("./moments.js").Moment} moment the walk goes on from there */
  rewind(moment) {
    this.session.rewind(moment.chunk);
    this.viewer.reset();
    this.screen.show(moment.picture);
    this.veil.show({ title: "Going back", busy: true, picture: true });
  }

  /** @param {import("./moments.js").Moment | undefined} moment none: now */
  look(moment) {
    this.screen.look(moment?.picture);
    this.element.dataset.past = String(moment !== undefined);
    if (!moment) return;
    const at = clockText(secondsBefore(this.config, moment.chunk));
    this.part("past-mark").textContent = `Looking back, ${at}`;
  }

  /** Called a few times per second. */
  sample() {
    const { player } = this.viewer;
    if (player && this.session.open) this.stats.sample(player, performance.now());
  }

  /** The pane goes, and its session with it. */
  close() {
    this.session.abandon();
    this.viewer.close();
  }

  /**
   * @param {import("./session.js").State} state
   * @param {Record<string, any>} detail
   */
  #stateChanged(state, detail) {
    this.detail = detail;
    this.element.dataset.state = state;
    if (state === "queued") this.stats.queued(detail);
    if (["lost", "ended", "failed", "gone", "taken"].includes(state)) this.#silent();
    const run = { again: () => this.events.onAgain(this), retry: () => this.session.retryNow() };
    const content = veilOf(state, detail, run);
    if (content) this.veil.show(content);
    this.events.onChange(this);
  }

  /** Say that no walk can begin here. */
  refuse(text) {
    this.#stateChanged("failed", { text });
  }

  /** Nobody listens; the veil says why. */
  #silent() {
    this.notice.hide();
    this.prompt.ended();
    this.stats.restart();
    this.#resend = false;
  }

  #started({ config }, resumed) {
    this.config = config;
    this.stats.restart();
    this.stats.format(this.viewer.label, config);
    if (!this.viewer.player) this.viewer.start(config);
    if (resumed) this.prompt.resumed();
    else this.prompt.started(this.#opening.prompt);
    if (resumed || this.#actions.length) this.#sendHeld(); // what was held, or let go, while nobody listened
    if (!resumed) this.part("screen").dataset.chunks = "0";
    this.events.onChange(this);
  }

  #received(meta, bytes) {
    const chunk = meta.generation_chunk_index;
    this.#coming.set(meta.transport_chunk_index, { chunk, prompt: this.prompt.inForce });
    this.stats.arrived(meta);
    this.prompt.arrived(meta);
    if (this.#resend) this.#sendHeld();
    this.viewer.push(meta, bytes);
  }

  /**
   * @param {number} transport
   * @param {number} now
   */
  #shown(transport, now) {
    const coming = this.#coming.get(transport);
    if (!coming) return; // out of date
    this.stats.shown(transport, now);
    if (this.session.state === "playing") this.veil.hide();
    const { chunk, prompt } = coming;
    for (const earlier of this.#coming.keys()) if (earlier <= transport) this.#coming.delete(earlier);
    this.#last = transport;
    const { dataset } = this.part("screen");
    dataset.chunks = String(Number(dataset.chunks ?? 0) + 1);
    dataset.player = this.viewer.name;
    dataset.chunk = String(chunk);
    this.moments.add({ chunk, prompt, picture: keptPicture(this.screen.picture) });
    this.events.onChange(this);
  }

  /** @param {Record<string, any>} message */
  #heard(message) {
    if (message.type === "session.reset") this.#wasReset();
    if (message.type === "session.rewound") this.#wentBack(message.chunk_index);
    if (message.type === "session.interaction.rejected") {
      this.prompt.rejected(message);
      if (message.retryable) this.#resend = true;
    }
    const notice = noticeOf(message);
    if (notice) this.notice.show(notice);
  }

  #wasReset() {
    this.moments = new Moments();
    this.#forget();
    this.prompt.repeat(this.#opening.prompt);
    if (this.#actions.length) this.#sendHeld();
  }

  /** The keys and the prompt of then are in force again: say which keys are held now. */
  #wentBack(chunk) {
    const moment = this.moments.list.find((kept) => kept.chunk === chunk);
    this.moments.backTo(chunk);
    if (moment) {
      this.prompt.adopt(moment.prompt);
      this.screen.show(moment.picture);
    }
    this.#forget();
    this.#sendHeld();
    const title = `Back at ${clockText(secondsBefore(this.config, chunk))}`;
    this.veil.show({ title, busy: true, picture: true });
  }

  /** What is on its way to the screen is out of date. */
  #forget() {
    this.viewer.reset();
    this.#coming.clear();
    this.stats.restart();
    this.events.onChange(this);
  }

  #sendHeld(pressed = false) {
    const now = performance.now();
    this.#resend = false;
    const event = this.session.interact(heldKeysEvent(this.#actions, now));
    if (event !== undefined && pressed) this.stats.latency.pressed(event, now);
  }

  #playerFailed(text) {
    this.session.abandon();
    this.events.onPlayerFailed(this, text);
  }
}
