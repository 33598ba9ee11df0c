import { close } from "./rest.js";

/** The walks of before the page was loaded again, until the visitor goes on with them or starts anew. */
export class OfferedWalks {
  /** @type {import("./walks.js").SavedWalk[]} */
  #walks = [];

  /**
   * @param {import("./stage.js").Stage} stage
   * @param {import("./api_key.js").ApiKey} key
   * @param {{ onContinue: () => void, onAnew: () => void }} events
   */
  constructor(stage, key, events) {
    this.stage = stage;
    this.key = key;
    this.events = events;
  }

  /** @returns {boolean} whether there are any, and the visitor has not chosen */
  get open() {
    return this.#walks.length > 0;
  }

  /** @param {import("./walks.js").SavedWalk[]} walks */
  take(walks) {
    this.#walks = walks;
  }

  /** Ask what the visitor wants. */
  show() {
    const several = this.#walks.length > 1;
    const [{ title, prompt, moments }] = this.#walks;
    const pane = this.stage.focused;
    pane.prompt.draft = prompt;
    pane.prepare(title, moments);
    pane.veil.show({
      title: several ? "Your walks are still there" : "Your walk is still there",
      text: this.#walks.map((saved) => saved.title).join(" · "),
      picture: moments.length > 0,
      action: { label: several ? "Continue your walks" : "Continue your walk", run: () => this.#continue() },
      other: { label: "Start anew", run: () => this.events.onAnew() },
    });
  }

  /** Give them up. */
  forget() {
    for (const { walk } of this.#walks) close(walk.session_id, this.key.value);
    this.#walks = [];
  }

  #continue() {
    const [first, ...others] = this.#walks;
    const pane = this.stage.focused;
    this.#walks = [];
    pane.resume(first, this.key.fields);
    for (const saved of others) this.stage.add().resume(saved, this.key.fields);
    this.stage.focus(pane);
    this.events.onContinue();
  }
}
