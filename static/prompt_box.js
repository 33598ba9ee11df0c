/** Where the prompt of the walk that has the focus is read and written. */
export class PromptBox {
  /** @type {import("./prompt.js").Prompt | undefined} */
  #prompt;

  /** @param {{ form: HTMLFormElement, text: HTMLTextAreaElement, send: HTMLButtonElement, status: HTMLElement }} elements */
  constructor(elements) {
    this.elements = elements;
    elements.text.addEventListener("input", () => this.#typed());
    elements.text.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      elements.form.requestSubmit();
    });
    elements.form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.#prompt.submit()) elements.text.blur();
    });
  }

  /** @param {import("./prompt.js").Prompt} prompt of the walk that has the focus now, or has changed */
  show(prompt) {
    this.#prompt = prompt;
    const { text, send, status } = this.elements;
    if (text.value.trim() !== prompt.draft) text.value = prompt.draft;
    if (status.textContent !== prompt.status) status.textContent = prompt.status;
    send.disabled = !prompt.sendable;
  }

  #typed() {
    this.#prompt.draft = this.elements.text.value.trim();
    this.elements.send.disabled = !this.#prompt.sendable;
  }
}
