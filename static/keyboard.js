import { actionOfCode } from "./keys.js";

const TEXT = "textarea, [contenteditable], input:not([type=radio], [type=range], [type=file], [type=button])";
const CHOICE = "select, input[type=radio], input[type=range]"; // arrows choose here

/**
 * @param {EventTarget | null} target
 * @param {string} selector
 */
function within(target, selector) {
  return target instanceof Element && target.closest(selector) !== null;
}

/**
 * WASD and IJKL or arrows, anywhere on the page but where text is typed.
 * @param {import("./keys.js").HeldKeys} held
 * @param {() => boolean} listening whether keys mean something now
 */
export function listenToKeyboard(held, listening) {
  const releaseAll = () => held.clear();

  window.addEventListener("keydown", (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey) return releaseAll(); // their keyup may never come
    const action = actionOfCode(event.code);
    if (!action || !listening() || within(event.target, TEXT)) return undefined;
    if (event.code.startsWith("Arrow") && within(event.target, CHOICE)) return undefined;
    event.preventDefault(); // arrows would scroll
    if (!event.repeat) held.set(event.code, [action]);
    return undefined;
  });
  window.addEventListener("keyup", (event) => held.set(event.code, []));
  window.addEventListener("blur", releaseAll);
  window.addEventListener("pagehide", releaseAll);
  document.addEventListener("visibilitychange", () => document.hidden && releaseAll());
  document.addEventListener("focusin", (event) => within(event.target, TEXT) && releaseAll());
}
