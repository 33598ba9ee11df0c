import { Connection } from "./connection.js";
import { judgeClosing, retryDelay } from "./retry.js";

/**
 * @typedef {"idle" | "connecting" | "queued" | "opening" | "playing" | "lost" | "ended" | "failed"} State
 *
 * @typedef {object} SessionEvents
 * @property {(state: State, detail: Record<string, any>) => void} onState
 * @property {(start: Record<string, any>) => void} onStart `video.start`
 * @property {(meta: Record<string, any>, bytes: ArrayBuffer) => void} onChunk
 * @property {(message: Record<string, any>) => void} onMessage everything else that the server says
 */

/** A visitor's walk: keeps a connection up, and starts anew from the same first frame when one is lost. */
export class Session {
  /** @type {Connection | undefined} */
  #connection;
  /** @type {Record<string, any> | undefined} */
  #start;
  /** @type {State} */
  #state = "idle";
  #attempt = 0;
  #timer = 0;
  #epoch = 0;
  #walked = false; // whether there is a walk to lose
  #stopping = false;
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

  /** @param {Record<string, any>} start the fields of `session.start` */
  play(start) {
    this.#leave();
    this.#start = start;
    this.#attempt = 0;
    this.#walked = false;
    this.#stopping = false;
    this.#connect();
  }

  /** Try at once instead of waiting. */
  retryNow() {
    if (this.#state === "lost") this.#connect();
  }

  stop() {
    this.#stopping = true;
    if (this.#connection) this.#connection.stop();
    else this.#finish("ended", {});
  }

  /** Back to the first frame; the stream goes on by itself. */
  reset() {
    if (this.open) this.#connection.send({ type: "session.reset", resume: true });
  }

  /** Leave at once, for instance with a decoder that failed. */
  abandon() {
    this.#leave();
    this.#change("idle", {});
  }

  /**
   * @param {{ prompt?: string, multi_modal_data?: { camera: Record<string, any> } }} event
   * @returns {string | undefined} the event's id, by which chunks will name it; none where nobody listens
   */
  interact(event) {
    if (!this.open) return undefined;
    const name = `page-${++this.#names}`;
    this.#connection.send({ type: "session.interaction", interaction: { event_id: name, event } });
    return name;
  }

  #connect() {
    clearInterval(this.#timer);
    this.#epoch = 0;
    this.#connection = new Connection(
      { type: "session.start", ...this.#start },
      {
        onMessage: (message) => this.#heard(message),
        onChunk: (meta, bytes) => this.#received(meta, bytes),
        onEnd: (end) => this.#ended(end),
      },
    );
    this.#change("connecting", { attempt: this.#attempt, walked: this.#walked });
  }

  #heard(message) {
    if (message.type === "session.queue") this.#change("queued", message);
    else if (message.type === "video.start") {
      this.#change("opening", {});
      this.events.onStart(message);
    } else {
      if (message.type === "session.reset") this.#epoch = message.epoch;
      this.events.onMessage(message);
    }
  }

  #received(meta, bytes) {
    this.#connection.send({ type: "session.ack", transport_chunk_index: meta.transport_chunk_index });
    if ((meta.epoch ?? 0) < this.#epoch) return;
    this.#attempt = 0;
    this.#walked = true;
    if (this.#state !== "playing") this.#change("playing", {});
    this.events.onChunk(meta, bytes);
  }

  #ended({ code, error, done }) {
    this.#connection = undefined;
    const verdict = judgeClosing(code, error);
    if (code === 1000 || this.#stopping) this.#finish("ended", { text: error?.message, ...done });
    else if (verdict.again) this.#wait(verdict.text, error !== undefined);
    else this.#finish("failed", { text: verdict.text, code: error?.code });
  }

  /**
   * @param {string} text why
   * @param {boolean} refused whether the server itself said so
   */
  #wait(text, refused) {
    const until = performance.now() + retryDelay(this.#attempt++) * 1000;
    const tick = () => {
      const seconds = (until - performance.now()) / 1000;
      if (seconds > 0)
        this.#change("lost", { text, refused, walked: this.#walked, seconds: Math.ceil(seconds) });
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
    this.#leave();
    this.#change(state, detail);
  }

  #change(state, detail) {
    this.#state = state;
    this.events.onState(state, detail);
  }
}
