import { Pane } from "./pane.js";

const MOST = 2;

/**
 * @typedef {object} StageEvents what a pane tells the page, and:
 * @property {(pane: Pane) => void} onFocus this pane has the keys now
 * @property {(pane: Pane) => void} onClose the visitor closes this one of two
 */

/** The worlds that are seen side by side; one of them has the focus, and with it the keys and the timeline. */
export class Stage {
  /** @type {Pane[]} */
  panes = [];
  /** @type {Pane} */
  focused;

  /**
   * @param {HTMLElement} root holds one pane, which is the pattern of all
   * @param {(id: string) => HTMLElement} figure finds the page's elements for what is measured
   * @param {import("./pane.js").PaneEvents & StageEvents} events
   */
  constructor(root, figure, events) {
    this.root = root;
    this.figure = figure;
    this.events = events;
    this.pattern = root.firstElementChild.cloneNode(true);
    this.pattern.removeAttribute("id");
    this.focused = this.#adopt(root.firstElementChild);
    this.#arrange();
  }

  /** @returns {boolean} whether there is room for another */
  get full() {
    return this.panes.length >= MOST;
  }

  /** @returns {Pane} another one, which gets the focus */
  add() {
    const element = this.pattern.cloneNode(true);
    this.root.append(element);
    const pane = this.#adopt(element);
    this.focus(pane);
    return pane;
  }

  /** @param {Pane} pane not the only one */
  remove(pane) {
    pane.close();
    pane.element.remove();
    this.panes = this.panes.filter((other) => other !== pane);
    if (this.focused === pane) this.focus(this.panes[0]);
    this.#arrange();
  }

  /** @param {Pane} pane */
  focus(pane) {
    if (this.focused !== pane) {
      this.events.onBlur(this.focused);
      this.focused = pane;
    }
    this.#arrange();
    this.events.onFocus(pane);
  }

  /** Say what each pane is, where there is more than one. */
  name() {
    for (const pane of this.panes) {
      pane.part("name").textContent = pane.title;
      pane.element.setAttribute("aria-label", pane.title || "World");
      pane.part("close").setAttribute("aria-label", `Close ${pane.title}`);
    }
  }

  #adopt(element) {
    const pane = new Pane(element, this.figure, this.events);
    this.panes.push(pane);
    for (const kind of ["focusin", "pointerdown"])
      element.addEventListener(
        kind,
        () => this.panes.includes(pane) && this.focused !== pane && this.focus(pane),
      );
    pane.part("close").addEventListener("click", () => this.events.onClose(pane));
    return pane;
  }

  #arrange() {
    this.root.dataset.panes = String(this.panes.length);
    for (const pane of this.panes) {
      const focused = pane === this.focused;
      pane.element.dataset.focused = String(focused);
      if (focused) pane.element.setAttribute("aria-current", "true");
      else pane.element.removeAttribute("aria-current");
      pane.part("bar").hidden = this.panes.length === 1;
      pane.stats.see(focused);
    }
    this.name();
  }
}
