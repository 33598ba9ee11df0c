const SHOWN_MS = 6000;

/** A short message over the picture that goes away by itself. */
export class Notice {
  #timer = 0;

  /** @param {HTMLElement} element */
  constructor(element) {
    this.element = element;
  }

  /** @param {string} text */
  show(text) {
    clearTimeout(this.#timer);
    this.element.textContent = text;
    this.element.hidden = false;
    this.#timer = setTimeout(() => this.hide(), SHOWN_MS);
  }

  hide() {
    this.element.hidden = true;
  }
}
