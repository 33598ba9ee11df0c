import { socketUrl } from "./address.js";

const PING_SECONDS = 15;
const OPEN_SECONDS = 10;
const STOP_SECONDS = 5;

/**
 * @typedef {object} ConnectionEvents
 * @property {(message: Record<string, any>) => void} onMessage every text message but chunk metadata
 * @property {(meta: Record<string, any>, bytes: ArrayBuffer) => void} onChunk metadata with its binary frame
 * @property {(end: { code: number, error?: Record<string, any>, done?: Record<string, any> }) => void} onEnd
 *   called once; with the server's `error` or `session.done`, if one came before the close
 */

/** One socket, from its first message to its close. A new try is a new connection. */
export class Connection {
  /** @type {Record<string, any> | undefined} */
  #meta;
  /** @type {Record<string, any> | undefined} */
  #error;
  /** @type {Record<string, any> | undefined} */
  #done;
  #ended = false;
  #heard = false; // since the last ping
  #ping = 0;
  #patience = 0;

  /**
   * @param {Record<string, any>} opening `session.start` or `session.resume`
   * @param {ConnectionEvents} events
   */
  constructor(opening, events) {
    this.events = events;
    this.socket = new WebSocket(socketUrl());
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => this.#opened(opening);
    this.socket.onmessage = ({ data }) => this.#received(data);
    this.socket.onclose = ({ code }) => this.#end(code);
    this.#patience = setTimeout(() => this.#end(1006), OPEN_SECONDS * 1000);
  }

  /** @param {Record<string, any>} message dropped where the socket isn't open */
  send(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  /**
   * Ask for the end; the server says `session.done` and closes, or is not waited for longer.
   * @param {"session.stop" | "session.close"} type of the stream alone, or of the session
   */
  stop(type) {
    if (this.socket.readyState !== WebSocket.OPEN) return this.#end(1000);
    this.send({ type });
    this.#patience = setTimeout(() => this.#end(1000), STOP_SECONDS * 1000);
    return undefined;
  }

  /** Leave, and the session with it, without waiting for an answer; no event follows. */
  abandon() {
    this.#ended = true;
    this.send({ type: "session.close" });
    this.#release();
  }

  #opened(opening) {
    clearTimeout(this.#patience);
    this.send(opening);
    this.#heard = true;
    this.#ping = setInterval(() => this.#askForLife(), PING_SECONDS * 1000);
  }

  /** A network that is gone closes no socket: who answers no ping is lost. */
  #askForLife() {
    if (!this.#heard) return this.#end(1006);
    this.#heard = false;
    return this.send({ type: "session.ping" });
  }

  #received(data) {
    if (this.#ended) return;
    this.#heard = true;
    if (data instanceof ArrayBuffer) {
      const meta = this.#meta;
      this.#meta = undefined;
      if (meta) this.events.onChunk(meta, data);
      return;
    }
    const message = JSON.parse(data);
    if (message.type === "video.chunk_metadata") this.#meta = message;
    else if (message.type === "error") this.#error = message;
    else if (message.type === "session.done") this.#done = message;
    else this.events.onMessage(message);
  }

  #end(code) {
    if (this.#ended) return;
    this.#ended = true;
    this.#release();
    this.events.onEnd({ code, error: this.#error, done: this.#done });
  }

  #release() {
    clearTimeout(this.#patience);
    clearInterval(this.#ping);
    this.socket.onclose = null;
    this.socket.close();
  }
}
