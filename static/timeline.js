import { clockText, secondsBefore } from "./words.js";

/** @typedef {import("./moments.js").Moment} Moment */

/**
 * The strip under the picture: what was shown of a walk so far. Its frame is a slider; at its right end is the
 * picture of now.
 */
export class Timeline {
  /** @type {import("./moments.js").Moments | undefined} */
  #moments;
  /** @type {Record<string, any> | undefined} */
  #config;
  /** @type {Moment | undefined} what is looked at, unless it is now */
  #past;

  /**
   * @param {{ root: HTMLElement, strip: HTMLCanvasElement, slider: HTMLInputElement, text: HTMLElement }} elements
   * @param {(moment: Moment | undefined) => void} onLook at a moment of the past, or at now
   */
  constructor(elements, onLook) {
    this.elements = elements;
    this.onLook = onLook;
    this.context = elements.strip.getContext("2d");
    elements.slider.addEventListener("input", () => this.#slid());
    new ResizeObserver(() => this.update()).observe(elements.strip.parentElement);
  }

  /** @returns {Moment | undefined} */
  get past() {
    return this.#past;
  }

  /**
   * Show another walk, from now on at its now.
   * @param {import("./moments.js").Moments} moments
   * @param {Record<string, any> | undefined} config of its `video.start`
   */
  follow(moments, config) {
    if (moments !== this.#moments) this.live();
    this.#moments = moments;
    this.#config = config;
    this.update();
  }

  /** Look at now. */
  live() {
    if (!this.#past) return;
    this.#past = undefined;
    this.onLook(undefined);
    this.update();
  }

  /** The walk has gone on, or back. */
  update() {
    const list = this.#moments?.list ?? [];
    if (this.#past && !list.includes(this.#past)) return this.#thinned(list);
    const { slider } = this.elements;
    slider.max = String(Math.max(0, list.length - 1));
    slider.value = String(this.#past ? list.indexOf(this.#past) : slider.max);
    slider.disabled = list.length < 2 || !this.#config;
    this.elements.root.dataset.past = String(this.#past !== undefined);
    this.#say(list);
    this.#draw(list);
    return undefined;
  }

  #slid() {
    const { list } = this.#moments;
    const index = Number(this.elements.slider.value);
    this.#look(index < list.length - 1 ? list[index] : undefined);
  }

  /** What was looked at is not kept any more: look at what comes before it. */
  #thinned(list) {
    this.#look(list.filter(({ chunk }) => chunk < this.#past.chunk).at(-1));
  }

  #look(moment) {
    this.#past = moment;
    this.onLook(moment);
    this.update();
  }

  #say(list) {
    const { slider, text } = this.elements;
    const newest = list.at(-1);
    const time = ({ chunk }) => clockText(secondsBefore(this.#config, chunk));
    let told = "The strip fills while you walk; drag it to look back.";
    if (this.#past && this.#config) {
      told = `${time(this.#past)} of ${time(newest)}, chunk ${this.#past.chunk}. The walk goes on meanwhile.`;
    } else if (newest && this.#config) told = `Now, at ${time(newest)}. Drag the strip to look back.`;
    slider.setAttribute("aria-valuetext", told);
    if (text.textContent !== told) text.textContent = told;
  }

  /** As many pictures as there is room for, evenly taken; the first is the first, the last the newest. */
  #draw(list) {
    const { strip, slider } = this.elements;
    const { width: room, height } = strip.parentElement.getBoundingClientRect();
    const ratio = Number(getComputedStyle(strip).getPropertyValue("--ratio"));
    const width = height * ratio;
    if (!width || !room) return;
    const cells = Math.min(list.length, Math.max(2, Math.floor(room / width)));
    const scale = window.devicePixelRatio;
    strip.width = Math.round(room * scale);
    strip.height = Math.round(height * scale);
    slider.style.width = `${cells * width}px`;
    this.context.imageSmoothingQuality = "high";
    for (let cell = 0; cell < cells; cell += 1) {
      const moment = list[cells > 1 ? Math.round((cell * (list.length - 1)) / (cells - 1)) : 0];
      const left = Math.round(cell * width * scale);
      const right = Math.round((cell + 1) * width * scale);
      this.context.drawImage(moment.picture, left, 0, right - left, strip.height);
    }
  }
}
