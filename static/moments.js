/**
 * @typedef {object} Moment where a walk can be gone back to, or left for a branch
 * @property {number} chunk the next one to be made there; the picture is its first
 * @property {string} prompt in force before that chunk
 * @property {HTMLCanvasElement | HTMLImageElement} picture
 */

const MOST = 96;
const WIDEST = 320; // pixels of a kept picture

/**
 * The pictures that are kept of a walk, one for each chunk; of a long walk every second, every fourth ... one, and
 * always the newest.
 */
export class Moments {
  /** @type {Moment[]} in the order of their chunks */
  list = [];
  #stride = 1;

  /** @param {Moment[]} list the past of another walk, or of this one before the page was loaded again */
  constructor(list = []) {
    for (const moment of list) this.add(moment);
  }

  /**
   * The next chunk is shown. Where the walk went back, what was behind it is not its past any more.
   * @param {Moment} moment
   */
  add(moment) {
    this.backTo(moment.chunk);
    const newest = this.list.at(-1);
    if (newest && newest.chunk % this.#stride) this.list.pop();
    this.list.push(moment);
    if (this.list.length <= MOST) return;
    this.#stride *= 2;
    this.list = this.list.filter((kept) => kept === moment || kept.chunk % this.#stride === 0);
  }

  /**
   * Forget this chunk and those behind it.
   * @param {number} chunk
   */
  backTo(chunk) {
    this.list = this.list.filter((moment) => moment.chunk < chunk);
  }
}

/**
 * @param {HTMLCanvasElement} frame
 * @returns {HTMLCanvasElement} a copy that stays, and isn't larger than it needs to be
 */
export function keptPicture(frame) {
  const scale = Math.min(1, WIDEST / frame.width);
  const picture = document.createElement("canvas");
  picture.width = Math.round(frame.width * scale);
  picture.height = Math.round(frame.height * scale);
  const context = picture.getContext("2d", { alpha: false });
  context.imageSmoothingQuality = "high";
  context.drawImage(frame, 0, 0, picture.width, picture.height);
  return picture;
}
