const HELP = "Goes with the place; change it while you walk.";

/** The prompt of one walk: it starts the walk, and can be changed on the way. */
export class Prompt {
  /** What stands in the box. */
  draft = "";
  status = HELP;
  walking = false;
  /** What the newest chunk was made with. */
  inForce = "";
  #sent = "";
  /** @type {string | undefined} */
  #pending;

  /**
   * @param {(prompt: string, again?: string) => string | undefined} change sends it; the event's id, if somebody
   *   listens
   * @param {() => void} onChange something is to be shown differently
   */
  constructor(change, onChange) {
    this.change = change;
    this.onChange = onChange;
  }

  /** @returns {boolean} whether what stands in the box can be sent */
  get sendable() {
    return this.walking && this.draft !== "" && this.draft !== this.#sent;
  }

  /** @returns {string} what a new walk starts with: all that stands here */
  begin() {
    this.#sent = this.draft;
    return this.#sent;
  }

  /**
   * The walk has this prompt now, for instance since it went back.
   * @param {string} prompt
   */
  adopt(prompt) {
    this.draft = prompt;
    this.#sent = prompt;
    this.inForce = prompt;
    this.#pending = undefined;
    this.#say(HELP);
  }

  /**
   * A new walk has started.
   * @param {string} opening its prompt
   */
  started(opening) {
    this.#pending = undefined;
    this.inForce = opening;
    this.walking = true;
    this.#say(HELP);
  }

  /** The walk goes on after a lost connection; so does what may have been lost with it. */
  resumed() {
    this.walking = true;
    if (this.#pending !== undefined) this.change(this.#sent, this.#pending);
    this.onChange();
  }

  ended() {
    this.walking = false;
    this.onChange();
  }

  /**
   * The walk is back at the prompt that it started with: send a later one again.
   * @param {string} opening
   */
  repeat(opening) {
    this.inForce = opening;
    if (this.#sent && this.#sent !== opening) this.#pending = this.change(this.#sent);
  }

  /** @param {{ started_event_ids?: string[] }} meta */
  arrived({ started_event_ids: started = [] }) {
    if (this.#pending === undefined || !started.includes(this.#pending)) return;
    this.#pending = undefined;
    this.inForce = this.#sent;
    this.#say("The new prompt is in the picture.");
  }

  /** @param {{ event_id: string, message: string }} rejection */
  rejected({ event_id: event, message }) {
    if (event !== this.#pending) return;
    this.#pending = undefined;
    this.#sent = "";
    this.#say(message);
  }

  /** Send what stands in the box. */
  submit() {
    const event = this.sendable ? this.change(this.draft) : undefined;
    if (event === undefined) return false;
    this.#sent = this.draft;
    this.#pending = event;
    this.#say("Sent; it takes effect with the next chunk.");
    return true;
  }

  #say(text) {
    this.status = text;
    this.onChange();
  }
}
