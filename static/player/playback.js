import { Pacer } from "./pacer.js";

/** Shows decoded frames at their own rate: a pacer, the page's animation frames and the screen. */
export class Playback {
  #request = 0;
  /** @type {number | undefined} */
  #shown;

  /**
   * @param {import("../screen.js").Screen} screen
   * @param {number} fps
   * @param {(chunk: number, now: number) => void} onShown a chunk's first frame was drawn
   */
  constructor(screen, fps, onShown) {
    this.screen = screen;
    this.onShown = onShown;
    /** @type {Pacer<VideoFrame | ImageBitmap>} */
    this.pacer = new Pacer({ fps });
    this.frames = 0;
    this.#request = requestAnimationFrame(() => this.#draw());
  }

  /**
   * @param {VideoFrame | ImageBitmap} frame closed here, after it was shown or dropped
   * @param {number} chunk
   */
  push(frame, chunk) {
    this.pacer.push(frame, chunk, performance.now());
  }

  reset() {
    this.pacer.reset();
  }

  close() {
    cancelAnimationFrame(this.#request);
    this.pacer.reset();
  }

  #draw() {
    this.#request = requestAnimationFrame(() => this.#draw());
    const now = performance.now();
    const due = this.pacer.take(now);
    if (!due) return;
    this.screen.show(due.frame);
    due.frame.close();
    this.frames += 1;
    if (due.chunk === this.#shown) return;
    this.#shown = due.chunk;
    this.onShown(due.chunk, now);
  }
}
