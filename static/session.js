import { Connection } from "./connection.js";
import { GONE, judgeClosing, retryDelay, TAKEN_OVER } from "./retry.js";

const LONGEST_WAIT_S = 60; // that a server can ask for

/**
 * @typedef {"idle" | "connecting" | "queued" | "opening" | "playing" | "lost" | "ended" | "failed" | "gone" | "taken"} State
 *   gone: the server does not have the session any more; taken: another page plays it now
 *
 * @typedef {object} Walk what a session is resumed with
 * @property {string} session_id
 * @property {string} token
 * @property {number} last the newest transport chunk that is here; -1 for none
 *
 * @typedef {object} SessionEvents
 * @property {(state: State, detail: Record<string, any>) => void} onState
 * @property {(start: Record<string, any>, resumed: boolean) => void} onStart `video.start`
 * @property {(meta: Record<string, any>, bytes: ArrayBuffer) => void} onChunk
 * @property {(message: Record<string, any>) => void} onMessage everything else that the server says
 */

/** A visitor's walk: keeps a connection up, and goes on behind the last chunk when one is lost. */
export class Session {
  /** @type {Connection | undefined} */
  #connection;
  /** @type {Record<string, any> | undefined} */
  #start;
  /** @type {Walk | undefined} */
  #walk;
  /** @type {State} */
  #state = "idle";
  #attempt = 0;
  #timer = 0;
  #epoch = 0;
  #stopping = false;
  #page = Math.random().toString(36).slice(2); // a page that is loaded again uses other event ids
  #names = 0;

  /** @param {SessionEvents} events */
  constructor(events) {
    this.events = events;
    window.addEventListener("online", () => this.#state === "lost" && this.retryNow());
  }

  get state() {
    return this.#state;
  }

  /** @returns {boolean} whether the server listens to interactions now */
  get open() {
    return this.#state === "opening" || this.#state === "playing";
  }

  /** @returns {Walk | undefined} what it can be resumed with, from the server's first word on until it is over */
  get walk() {
    return this.#walk && { ...this.#walk };
  }

  /** @param {Record<string, any>} start the fields of `session.start` */
  play(start) {
    this.#begin(start, undefined);
  }

  /**
   * Go on with a session that is there.
   * @param {Walk} walk
   * @param {{ api_key?: string }} [start] further fields
   */
  resume(walk, start = {}) {
    this.#begin(start, { ...walk });
  }

  /** Try at once instead of waiting. */
  retryNow() {
    if (this.#state === "lost" || this.#state === "taken") this.#connect();
  }

  /** End the walk for good. */
  stop() {
    this.#stopping = true;
    if (this.#connection) this.#connection.stop(this.#walk ? "session.close" : "session.stop");
    else this.#finish("ended", {});
  }

  /** Back to the first frame; the stream goes on by itself. */
  reset() {
    if (this.open) this.#connection.send({ type: "session.reset", resume: true });
  }

  /**
   * Back to an earlier chunk; the stream goes on from there.
   * @param {number} chunk the next one to be made
   */
  rewind(chunk) {
    if (this.open) this.#connection.send({ type: "session.rewind", to_chunk: chunk });
  }

  /** Leave at once, and close the session. */
  abandon() {
    this.#leave();
    this.#walk = undefined;
    this.#change("idle", {});
  }

  /**
   * @param {{ prompt?: string, multi_modal_data?: { camera: Record<string, any> } }} event
   * @param {string} [again] the id of an event that may have been lost: it takes effect once
   * @returns {string | undefined} the event's id, by which chunks will name it; none where nobody listens
   */
  interact(event, again) {
    if (!this.open) return undefined;
    const name = again ?? `page-${this.#page}-${++this.#names}`;
    this.#connection.send({ type: "session.interaction", interaction: { event_id: name, event } });
    return name;
  }

  #begin(start, walk) {
    this.#leave();
    this.#start = start;
    this.#walk = walk;
    this.#attempt = 0;
    this.#epoch = 0;
    this.#stopping = false;
    this.#connect();
  }

  #connect() {
    clearInterval(this.#timer);
    this.#connection = new Connection(this.#opening(), {
      onMessage: (message) => this.#heard(message),
      onChunk: (meta, bytes) => this.#received(meta, bytes),
      onEnd: (end) => this.#ended(end),
    });
    this.#change("connecting", { attempt: this.#attempt, walked: this.#walk !== undefined });
  }

  #opening() {
    if (!this.#walk) return { type: "session.start", ...this.#start };
    const { session_id, token, last } = this.#walk;
    const resume = { type: "session.resume", session_id, token, last_transport_chunk_index: last };
    return this.#start.api_key ? { ...resume, api_key: this.#start.api_key } : resume;
  }

  #heard(message) {
    if (message.type === "session.queue") this.#change("queued", message);
    else if (message.type === "video.start") this.#started(message);
    else {
      if (message.epoch !== undefined) this.#epoch = message.epoch; // reset, rewound, resumed
      this.events.onMessage(message);
    }
  }

  #started(message) {
    const walked = this.#walk !== undefined;
    this.#walk ??= { session_id: message.session_id, token: message.token, last: -1 };
    this.#change("opening", { walked });
    this.events.onStart(message, walked);
  }

  #received(meta, bytes) {
    this.#connection.send({ type: "session.ack", transport_chunk_index: meta.transport_chunk_index });
    this.#walk.last = Math.max(this.#walk.last, meta.transport_chunk_index);
    if ((meta.epoch ?? 0) < this.#epoch) return;
    this.#attempt = 0;
    if (this.#state !== "playing") this.#change("playing", {});
    this.events.onChunk(meta, bytes);
  }

  #ended({ code, error }) {
    this.#connection = undefined;
    const { again, text } = judgeClosing(code, error);
    if (code === 1000 || this.#stopping) this.#finish("ended", { text: error?.message });
    else if (again) this.#wait(text, error);
    else if (code === TAKEN_OVER) this.#change("taken", { text });
    else this.#finish(GONE.includes(code) ? "gone" : "failed", { text, code: error?.code });
  }

  /**
   * @param {string} text why
   * @param {Record<string, any> | undefined} error where the server itself said so; it may know for how long
   */
  #wait(text, error) {
    const asked = Math.min(error?.retry_after_seconds ?? 0, LONGEST_WAIT_S);
    const until = performance.now() + Math.max(asked, retryDelay(this.#attempt++)) * 1000;
    const [refused, walked] = [error !== undefined, this.#walk !== undefined];
    const tick = () => {
      const seconds = (until - performance.now()) / 1000;
      if (seconds > 0) this.#change("lost", { text, refused, walked, seconds: Math.ceil(seconds) });
      else this.#connect();
    };
    clearInterval(this.#timer);
    this.#timer = setInterval(tick, 250);
    tick();
  }

  #leave() {
    clearInterval(this.#timer);
    this.#connection?.abandon();
    this.#connection = undefined;
  }

  #finish(state, detail) {
    const chunks = this.#walk && this.#walk.last + 1;
    this.#leave();
    this.#walk = undefined;
    this.#change(state, { chunks, ...detail });
  }

  #change(state, detail) {
    this.#state = state;
    this.events.onState(state, detail);
  }
}
