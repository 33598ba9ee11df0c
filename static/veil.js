/**
 * @typedef {object} VeilContent
 * @property {string} title
 * @property {string} [text]
 * @property {string} [fine] small print
 * @property {boolean} [busy] shows that something is going on
 * @property {boolean} [picture] leaves the picture to be seen
 * @property {{ label: string, run: () => void }} [action]
 */

/** What lies over the picture while nobody walks: what happened, and what can be done. */
export class Veil {
  #run = () => {};

  /** @param {{ veil: HTMLElement, title: HTMLElement, text: HTMLElement, fine: HTMLElement, action: HTMLButtonElement }} elements */
  constructor(elements) {
    this.elements = elements;
    elements.action.addEventListener("click", () => this.#run());
  }

  /** @param {VeilContent} content */
  show({ title, text = "", fine = "", busy = false, picture = false, action }) {
    const { elements } = this;
    elements.veil.dataset.shown = "true";
    elements.veil.dataset.busy = String(busy);
    elements.veil.dataset.picture = String(picture);
    setText(elements.title, title);
    setText(elements.text, text);
    setText(elements.fine, fine);
    elements.fine.hidden = !fine;
    elements.action.hidden = !action;
    if (!action) return;
    setText(elements.action, action.label);
    this.#run = action.run;
  }

  hide() {
    this.elements.veil.dataset.shown = "false";
  }
}

/** Leaves an unchanged text alone, so that screen readers don't say it again. */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
