/**
 * Decides which frame is on the screen now. Chunks arrive whole, twelve frames at a time; they are shown at their
 * own rate with as little waiting as the arrivals allow. Pure: the caller brings the clock.
 *
 * How far the viewer is behind is seen at the moment a chunk arrives: `slack` is what was left to play. More than
 * needed, and frames are shown a little faster; nothing left, and the picture stalled, so the cushion grows. Where
 * chunks keep coming more slowly than they play, frames are shown more slowly instead of in fits and starts.
 */

const REMEMBERED = 4; // chunks
const ENOUGH = 2; // chunks, to judge the slack by
const HURRY_FROM = 1; // frames of slack beyond the cushion, until it is used up
const HURRY_PER_FRAME = 0.02; // of the rate: one frame too many goes in four seconds
const FASTEST = 1.25;
const SLOW_FROM = 1.05; // seconds that a second of video takes to arrive
const SLOWEST = 0.5;
const CALM_CHUNKS = 24; // chunks without a stall before the cushion shrinks again
const ASLEEP_MS = 1000; // without a call: a hidden page draws nothing
const KEPT_ASLEEP = 8; // frames beyond the cushion that are kept then

/**
 * @template F
 * @typedef {{ frame: F, chunk: number }} Paced a frame, and the chunk that it belongs to
 */

/** @template {{ close?: () => void }} F */
export class Pacer {
  /** @type {Paced<F>[]} */
  #queue = [];
  #playing = false;
  #stalled = false;
  #due = 0; // when the head of the queue is to be shown, in ms
  #rate = 1;
  #calm = 0;
  /** @type {number[]} frames that were left when a chunk arrived */
  #slacks = [];
  /** @type {number[]} seconds that a second of video took to arrive */
  #paces = [];
  /** @type {{ chunk: number, at: number, frames: number } | undefined} */
  #newest;

  /**
   * @param {{ fps: number, cushion?: number, maxCushion?: number, maxLag?: number }} options `cushion`: frames that
   *   should be left when the next chunk arrives; `maxLag`: seconds of frames beyond which the oldest are dropped
   */
  constructor({ fps, cushion = 2, maxCushion = 8, maxLag = 2.5 }) {
    this.interval = 1000 / fps;
    this.leastCushion = cushion;
    this.maxCushion = maxCushion;
    this.cushion = cushion;
    this.maxFrames = Math.ceil(maxLag * fps);
    this.stalls = 0;
    this.dropped = 0;
  }

  /** @returns {number} seconds of frames that wait to be shown */
  get bufferedSeconds() {
    return (this.#queue.length * this.interval) / 1000;
  }

  /** @returns {number} 1, a little more while catching up, less where chunks come slowly */
  get rate() {
    return this.#rate;
  }

  /**
   * @param {F} frame
   * @param {number} chunk
   * @param {number} now ms
   */
  push(frame, chunk, now) {
    if (chunk !== this.#newest?.chunk) this.#arrived(chunk, now);
    this.#newest.frames += 1;
    this.#queue.push({ frame, chunk });
    if (!this.#playing) this.#begin(now);
    while (this.#queue.length > this.maxFrames) this.#drop();
  }

  /**
   * @param {number} now ms
   * @returns {Paced<F> | undefined} the frame that became due; the caller closes it. Late ones before it are dropped.
   */
  take(now) {
    if (!this.#playing || now < this.#due) return undefined;
    if (!this.#queue.length) {
      this.#playing = false;
      this.#stalled = true;
      return undefined;
    }
    if (now - this.#due > ASLEEP_MS) this.#wake(now);
    const step = this.interval / this.#rate;
    while (this.#queue.length > 1 && now >= this.#due + step) {
      this.#due += step;
      this.#drop();
    }
    this.#due += step;
    return this.#queue.shift();
  }

  /** Throw away what waits, and start afresh with the next frame. */
  reset() {
    while (this.#queue.length) this.#drop();
    this.#playing = false;
    this.#stalled = false;
    this.#rate = 1;
    this.#slacks = [];
    this.#paces = [];
    this.#newest = undefined;
  }

  /** A new chunk's first frame: look at how the last ones came. */
  #arrived(chunk, now) {
    const before = this.#newest;
    if (before) remember(this.#paces, (now - before.at) / (before.frames * this.interval));
    if (this.#playing) remember(this.#slacks, this.#queue.length + (this.#due - now) / this.interval);
    this.#newest = { chunk, at: now, frames: 0 };
    this.#rate = this.#chooseRate();
    this.#calm += 1;
    if (this.#calm < CALM_CHUNKS || this.cushion <= this.leastCushion) return;
    this.cushion -= 1;
    this.#calm = 0;
  }

  #chooseRate() {
    const least = this.#slacks.length < ENOUGH ? this.cushion : Math.min(...this.#slacks);
    const excess = least - this.cushion;
    if (excess > (this.#rate > 1 ? 0 : HURRY_FROM)) {
      return Math.min(FASTEST, 1 + Math.max(1, excess) * HURRY_PER_FRAME);
    }
    const pace = this.#pace();
    return pace > SLOW_FROM ? Math.max(SLOWEST, 1 / pace) : 1;
  }

  #pace() {
    const sum = this.#paces.reduce((total, pace) => total + pace, 0);
    return this.#paces.length < REMEMBERED ? 1 : sum / this.#paces.length;
  }

  #begin(now) {
    if (this.#stalled) {
      this.stalls += 1;
      this.#calm = 0;
      this.#slacks = [];
      if (this.#pace() <= SLOW_FROM) this.cushion = Math.min(this.maxCushion, this.cushion + 1);
    }
    this.#playing = true;
    this.#stalled = false;
    this.#due = now + this.cushion * this.interval;
  }

  #wake(now) {
    while (this.#queue.length > this.cushion + KEPT_ASLEEP) this.#drop();
    this.#due = now;
    this.#slacks = [];
  }

  #drop() {
    this.#queue.shift()?.frame.close?.();
    this.dropped += 1;
  }
}

/**
 * @param {number[]} values
 * @param {number} value
 */
function remember(values, value) {
  values.push(value);
  if (values.length > REMEMBERED) values.shift();
}
