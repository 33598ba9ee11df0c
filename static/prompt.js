const HELP = "Goes with the place; change it while you walk.";

/** The prompt: it starts a walk, and can be changed on the way. */
export class PromptBox {
  #sent = "";
  /** @type {string | undefined} */
  #pending;

  /**
   * @param {{ form: HTMLFormElement, text: HTMLTextAreaElement, send: HTMLButtonElement, status: HTMLElement }} elements
   * @param {(prompt: string) => string | undefined} change sends it; the event's id, if somebody listens
   */
  constructor(elements, change) {
    this.elements = elements;
    this.change = change;
    elements.text.addEventListener("input", () => this.#update());
    elements.text.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      elements.form.requestSubmit();
    });
    elements.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
  }

  get value() {
    return this.elements.text.value.trim();
  }

  /** @param {string} prompt */
  set value(prompt) {
    this.elements.text.value = prompt;
    this.#update();
  }

  /** @returns {string} what a new walk starts with: all that stands here */
  begin() {
    this.#sent = this.value;
    return this.#sent;
  }

  /**
   * A walk has started, or started again after a lost connection.
   * @param {string} opening its prompt
   */
  started(opening) {
    this.#pending = undefined;
    this.walking = true;
    this.#say(HELP);
    this.repeat(opening);
    this.#update();
  }

  ended() {
    this.walking = false;
    this.#update();
  }

  /**
   * The walk is back at the prompt that it started with: send a later one again.
   * @param {string} opening
   */
  repeat(opening) {
    if (this.#sent && this.#sent !== opening) this.#pending = this.change(this.#sent);
  }

  /** @param {{ started_event_ids?: string[] }} meta */
  arrived({ started_event_ids: started = [] }) {
    if (this.#pending === undefined || !started.includes(this.#pending)) return;
    this.#pending = undefined;
    this.#say("The new prompt is in the picture.");
  }

  /** @param {{ event_id: string, message: string }} rejection */
  rejected({ event_id: event, message }) {
    if (event !== this.#pending) return;
    this.#pending = undefined;
    this.#sent = "";
    this.#say(message);
    this.#update();
  }

  #submit() {
    if (this.elements.send.disabled) return;
    const event = this.change(this.value);
    if (event === undefined) return;
    this.#sent = this.value;
    this.#pending = event;
    this.#say("Sent; it takes effect with the next chunk.");
    this.#update();
    this.elements.text.blur();
  }

  #update() {
    this.elements.send.disabled = !this.walking || !this.value || this.value === this.#sent;
  }

  #say(text) {
    this.elements.status.textContent = text;
  }
}
