/** The visitor's API key, where the server wants one, and the form that asks for it. */
export class ApiKey {
  /**
   * @param {{ form: HTMLElement, input: HTMLInputElement }} elements
   * @param {() => void} onSubmit the visitor has given one
   */
  constructor({ form, input }, onSubmit) {
    this.form = form;
    this.input = input;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      onSubmit();
    });
  }

  /** @returns {string} "" where there is none */
  get value() {
    return this.input.value;
  }

  /** @returns {{ api_key?: string }} its part of a message */
  get fields() {
    return this.value ? { api_key: this.value } : {};
  }

  /** @param {boolean} wanted whether to ask for one */
  ask(wanted) {
    this.form.hidden = !wanted;
  }
}
