import { Playback } from "./playback.js";

/** One JPEG per frame: needs nothing but images, and many more bytes. */
export class JpegPlayer {
  static label = "JPEG";
  static format = "jpeg";

  /** @returns {Promise<boolean>} */
  static async supported() {
    return "createImageBitmap" in globalThis;
  }

  #epoch = 0;
  #closed = false;
  #last = Promise.resolve();

  /**
   * @param {import("../screen.js").Screen} screen
   * @param {import("./players.js").PlayerEvents} events
   */
  constructor(screen, events) {
    this.screen = screen;
    this.events = events;
  }

  /** @param {import("./players.js").StreamConfig} config */
  async start({ fps }) {
    this.playback = new Playback(this.screen, fps, this.events.onShown);
  }

  get bufferedSeconds() {
    return this.playback?.pacer.bufferedSeconds ?? 0;
  }

  get frames() {
    return this.playback?.frames ?? 0;
  }

  get stalls() {
    return this.playback?.pacer.stalls ?? 0;
  }

  /**
   * @param {{ transport_chunk_index: number, frame_sizes: number[] }} meta
   * @param {ArrayBuffer} bytes images one after another
   */
  push(meta, bytes) {
    const epoch = this.#epoch;
    let start = 0;
    for (const size of meta.frame_sizes) {
      const image = createImageBitmap(new Blob([bytes.slice(start, start + size)], { type: "image/jpeg" }));
      start += size;
      this.#last = this.#last.then(async () => this.#decoded(await image, meta.transport_chunk_index, epoch));
    }
    this.#last = this.#last.catch((error) => this.events.onError(error));
  }

  reset() {
    this.#epoch += 1;
    this.playback?.reset();
  }

  close() {
    this.#closed = true;
    this.playback?.close();
  }

  #decoded(bitmap, chunk, epoch) {
    if (epoch !== this.#epoch || this.#closed) bitmap.close();
    else this.playback.push(bitmap, chunk);
  }
}
