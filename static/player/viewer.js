import { choosePlayer, PLAYERS } from "./players.js";

/**
 * @typedef {object} ViewerEvents
 * @property {(chunk: number, now: number) => void} onShown the first frame of this transport chunk was drawn
 * @property {(text: string) => void} onFailed the player can't go on; the next choice is another one
 */

/** The player of the walk that runs now: takes chunks in order, also while it is still being set up. */
export class Viewer {
  /** Names of players that failed on this page. */
  #failed = new Set();
  #name = "";
  /** @type {InstanceType<(typeof PLAYERS)["webcodecs"]> | undefined} */
  #player;
  #ready = Promise.resolve();

  /**
   * @param {import("../screen.js").Screen} screen
   * @param {ViewerEvents} events
   */
  constructor(screen, events) {
    this.screen = screen;
    this.events = events;
  }

  /** @returns {string} the chosen player's name in `PLAYERS` */
  get name() {
    return this.#name;
  }

  /** @returns {string} how the chosen player is called */
  get label() {
    return PLAYERS[this.#name].label;
  }

  /** What the running player measures, if there is one. */
  get player() {
    return this.#player;
  }

  /**
   * @param {string | null} wanted a name of `PLAYERS`, or null for the best
   * @returns {Promise<string>} the format that its chunks must have
   * @throws {Error} where no player works
   */
  async choose(wanted) {
    this.#name = await choosePlayer(wanted, this.#failed);
    return PLAYERS[this.#name].format;
  }

  /** @param {string} name of the player that a walk was begun with: its session has that one's format */
  use(name) {
    this.close();
    this.#name = name;
  }

  /** @param {import("./players.js").StreamConfig} config */
  start(config) {
    this.close();
    const player = new PLAYERS[this.#name](this.screen, {
      onShown: (chunk, now) => player === this.#player && this.events.onShown(chunk, now),
      onError: (error) => this.#fail(player, error),
    });
    this.#player = player;
    this.#ready = player.start(config).catch((error) => this.#fail(player, error));
  }

  /**
   * @param {Record<string, any>} meta `video.chunk_metadata`
   * @param {ArrayBuffer} bytes
   */
  push(meta, bytes) {
    this.#then((player) => player.push(meta, bytes));
  }

  /** The world is back at its first frame: nothing older is to be shown. */
  reset() {
    this.#then((player) => player.reset());
  }

  close() {
    this.#player?.close();
    this.#player = undefined;
  }

  #then(act) {
    const player = this.#player;
    this.#ready = this.#ready
      .then(() => player && player === this.#player && act(player))
      .catch((error) => this.#fail(player, error));
  }

  #fail(player, error) {
    if (player !== this.#player) return;
    this.#failed.add(this.#name);
    this.close();
    this.events.onFailed(`${this.label} failed: ${error.message}`);
  }
}
