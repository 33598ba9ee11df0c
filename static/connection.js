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

/** One socket, from `session.start` to its close. A new try is a new connection. */
export class Connection {
  /** @type {Record<string, any> | undefined} */
  #meta;
  /** @type {Record<string, any> | undefined} */
  #error;
  /** @type {Record<string, any> | undefined} */
  #done;
  #ended = false;
  #ping = 0;
  #patience = 0;

  /**
   * @param {Record<string, any>} start the `session.start` message
   * @param {ConnectionEvents} events
   */
  constructor(start, events) {
    this.events = events;
    this.socket = new WebSocket(socketUrl());
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => this.#opened(start);
    this.socket.onmessage = ({ data }) => this.#received(data);
    this.socket.onclose = ({ code }) => this.#end(code);
    this.#patience = setTimeout(() => this.#end(1006), OPEN_SECONDS * 1000);
  }

  /** @param {Record<string, any>} message dropped where the socket isn't open */
  send(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  /** Ask for the end of the stream; the server says `session.done` and closes, or is not waited for longer. */
  stop() {
    if (this.socket.readyState !== WebSocket.OPEN) return this.#end(1000);
    this.send({ type: "session.stop" });
    this.#patience = setTimeout(() => this.#end(1000), STOP_SECONDS * 1000);
    return undefined;
  }

  /** Leave, and the session with it, without waiting for an answer; no event follows. */
  abandon() {
    this.#ended = true;
    this.send({ type: "session.close" });
    this.#release();
  }

  #opened(start) {
    clearTimeout(this.#patience);
    this.send(start);
    this.#ping = setInterval(() => this.send({ type: "session.ping" }), PING_SECONDS * 1000);
  }

  #received(data) {
    if (this.#ended) return;
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
