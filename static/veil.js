/**
 * @typedef {{ label: string, run: () => void }} Action
 *
 * @typedef {object} VeilContent
 * @property {string} title
 * @property {string} [text]
 * @property {string} [fine] small print
 * @property {boolean} [busy] shows that something is going on
 * @property {boolean} [picture] leaves the picture to be seen
 * @property {Action} [action]
 * @property {Action} [other] what can be done instead
 */

/** What lies over the picture while nobody walks: what happened, and what can be done. */
export class Veil {
  /** @type {{ action?: Action, other?: Action }} */
  #runs = {};

  /** @param {Record<"veil" | "title" | "text" | "fine" | "action" | "other", HTMLElement>} elements */
  constructor(elements) {
    this.elements = elements;
    for (const name of ["action", "other"])
      elements[name].addEventListener("click", () => this.#runs[name]?.run());
  }

  /** @param {VeilContent} content */
  show({ title, text = "", fine = "", busy = false, picture = false, action, other }) {
    const { elements } = this;
    elements.veil.dataset.shown = "true";
    elements.veil.dataset.busy = String(busy);
    elements.veil.dataset.picture = String(picture);
    setText(elements.title, title);
    setText(elements.text, text);
    setText(elements.fine, fine);
    elements.fine.hidden = !fine;
    this.#runs = { action, other };
    for (const [name, offered] of Object.entries(this.#runs)) {
      elements[name].hidden = !offered;
      if (offered) setText(elements[name], offered.label);
    }
  }

  hide() {
    this.elements.veil.dataset.shown = "false";
  }
}

/** Leaves an unchanged text alone, so that screen readers don't say it again. */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
