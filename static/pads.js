import { actionsOfVector } from "./keys.js";

const DEAD_SHARE = 0.16; // of the pad's width, around its middle

/**
 * A round pad with four directions: drag on it with a finger or the mouse, or hold one of its buttons with Enter
 * or Space. Its buttons light up for whatever is held, from wherever.
 */
export class Pad {
  /** @type {number | undefined} */
  #pointer;

  /**
   * @param {HTMLElement} element with four buttons that carry `data-action`, in the order up, left, down, right
   * @param {import("./keys.js").HeldKeys} held
   */
  constructor(element, held) {
    this.element = element;
    this.held = held;
    this.buttons = [...element.querySelectorAll("button[data-action]")];
    this.actions = this.buttons.map((button) => button.dataset.action);
    this.source = `pad ${this.actions.join("")}`;
    element.addEventListener("pointerdown", (event) => this.#down(event));
    element.addEventListener("pointermove", (event) => this.#move(event));
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) {
      element.addEventListener(end, (event) => this.#up(event));
    }
    element.addEventListener("contextmenu", (event) => event.preventDefault());
    for (const button of this.buttons) this.#listen(button);
  }

  /** @param {string[]} actions what is held now */
  light(actions) {
    for (const button of this.buttons) {
      button.setAttribute("aria-pressed", String(actions.includes(button.dataset.action)));
    }
  }

  #listen(button) {
    const source = `button ${button.dataset.action}`;
    button.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      this.held.set(source, [button.dataset.action]);
    });
    button.addEventListener("keyup", () => this.held.set(source, []));
    button.addEventListener("blur", () => this.held.set(source, []));
  }

  #down(event) {
    if (this.#pointer !== undefined || event.button !== 0) return;
    event.preventDefault();
    this.#pointer = event.pointerId;
    this.element.setPointerCapture(event.pointerId);
    this.#move(event);
  }

  #move(event) {
    if (event.pointerId !== this.#pointer) return;
    const box = this.element.getBoundingClientRect();
    const x = event.clientX - box.left - box.width / 2;
    const y = event.clientY - box.top - box.height / 2;
    this.held.set(this.source, actionsOfVector(x, y, this.actions, box.width * DEAD_SHARE));
  }

  #up(event) {
    if (event.pointerId !== this.#pointer) return;
    this.#pointer = undefined;
    this.held.set(this.source, []);
  }
}
