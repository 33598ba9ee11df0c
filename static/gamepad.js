import { actionsOfVector } from "./keys.js";

const DEAD = 0.4;
const MOVE = ["w", "a", "s", "d"];
const LOOK = ["i", "j", "k", "l"];
const CROSS = [12, 14, 13, 15]; // up, left, down, right of the standard layout

/**
 * The left stick or the cross moves, the right stick looks. Sticks have no events, so they are read with each
 * animation frame, and only while a gamepad is there.
 * @param {import("./keys.js").HeldKeys} held
 */
export function listenToGamepad(held) {
  let request = 0;

  const read = () => {
    const pads = navigator.getGamepads().filter((pad) => pad?.connected);
    for (const pad of pads)
      held.set(`gamepad ${pad.index}`, document.hasFocus() ? actionsOfGamepad(pad) : []);
    request = pads.length ? requestAnimationFrame(read) : 0;
  };
  window.addEventListener("gamepadconnected", () => {
    if (!request) request = requestAnimationFrame(read);
  });
  window.addEventListener("gamepaddisconnected", (event) => held.set(`gamepad ${event.gamepad.index}`, []));
}

/**
 * @param {Pick<Gamepad, "axes" | "buttons">} pad
 * @returns {string[]}
 */
export function actionsOfGamepad({ axes, buttons }) {
  const cross = MOVE.filter((_, index) => buttons[CROSS[index]]?.pressed);
  const move = actionsOfVector(axes[0] ?? 0, axes[1] ?? 0, MOVE, DEAD);
  const look = actionsOfVector(axes[2] ?? 0, axes[3] ?? 0, LOOK, DEAD);
  return [...cross, ...move, ...look];
}
