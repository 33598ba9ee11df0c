/**
 * The eight action keys of `lingbot.camera_actions.v1`, and which of them are held now.
 * Pure: knows nothing of the page, so that it can be tested alone.
 */

export const ACTIONS = Object.freeze(["w", "a", "s", "d", "i", "j", "k", "l"]);

/** Physical keys (`KeyboardEvent.code`), so that the layout of the keyboard doesn't matter. */
const CODES = Object.freeze({
  KeyW: "w",
  KeyA: "a",
  KeyS: "s",
  KeyD: "d",
  KeyI: "i",
  KeyJ: "j",
  KeyK: "k",
  KeyL: "l",
  ArrowUp: "i",
  ArrowLeft: "j",
  ArrowDown: "k",
  ArrowRight: "l",
});

/**
 * @param {string} code a `KeyboardEvent.code`
 * @returns {string | undefined} the action it stands for
 */
export function actionOfCode(code) {
  return Object.hasOwn(CODES, code) ? CODES[code] : undefined;
}

/**
 * @param {number} x right is positive
 * @param {number} y down is positive
 * @param {[string, string, string, string]} actions up, left, down, right
 * @param {number} dead radius below which nothing is held
 * @returns {string[]} one action, or two on a diagonal, or none
 */
export function actionsOfVector(x, y, [up, left, down, right], dead) {
  if (Math.hypot(x, y) < dead) return [];
  const around = [[right], [right, down], [down], [left, down], [left], [up, left], [up], [up, right]];
  return around[(Math.round(Math.atan2(y, x) / (Math.PI / 4)) + 8) % 8];
}

/** Which actions are held, by any of several sources (a key, a pad, a stick): held once, sent once. */
export class HeldKeys {
  /** @type {Map<string, Set<string>>} */
  #sources = new Map();
  #held = "";

  /** @param {(actions: string[]) => void} onChange called with the sorted actions when the union changes */
  constructor(onChange) {
    this.onChange = onChange;
  }

  /** @returns {string[]} the held actions in the order of `ACTIONS` */
  get actions() {
    return [...this.#held];
  }

  /**
   * Say what one source holds now; an empty list releases it.
   * @param {string} source
   * @param {Iterable<string>} actions
   */
  set(source, actions) {
    const held = new Set(actions);
    if (held.size) this.#sources.set(source, held);
    else this.#sources.delete(source);
    this.#publish();
  }

  /** Release everything that every source holds. */
  clear() {
    this.#sources.clear();
    this.#publish();
  }

  #publish() {
    const union = ACTIONS.filter((action) => [...this.#sources.values()].some((held) => held.has(action)));
    const held = union.join("");
    if (held === this.#held) return;
    this.#held = held;
    this.onChange(union);
  }
}
