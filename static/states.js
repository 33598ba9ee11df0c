/** What the page says in each state of a session. */

const NO_RESUME = "This walk can't be resumed. A new one starts from the same first frame.";

/** @type {Record<import("./session.js").State, string>} */
export const LINK_TEXTS = Object.freeze({
  idle: "Not connected",
  connecting: "Connecting",
  queued: "In the queue",
  opening: "Opening",
  playing: "Live",
  lost: "Connection lost",
  ended: "Ended",
  failed: "Not connected",
});

/**
 * @param {import("./session.js").State} state
 * @param {Record<string, any>} detail
 * @param {{ again: () => void, retry: () => void }} run what the button does
 * @returns {import("./veil.js").VeilContent | undefined} none where the picture says enough
 */
export function veilOf(state, detail, run) {
  switch (state) {
    case "connecting":
      return {
        title: detail.attempt ? "Connecting again" : "Connecting",
        busy: true,
        fine: detail.walked ? NO_RESUME : "",
      };
    case "queued":
      return {
        title: detail.position === 1 ? "You are next" : `You are number ${detail.position} in the queue`,
        text: `${detail.depth} waiting for a place. It starts by itself.`,
        busy: true,
      };
    case "opening":
      return { title: "Opening the world", text: "Its first pictures are being made.", busy: true };
    case "lost":
      return {
        title: detail.refused ? "Not possible just now" : "Connection lost",
        text: `${sentence(detail.text)} Trying again in ${detail.seconds} s.`,
        fine: detail.walked ? NO_RESUME : "",
        action: { label: "Try now", run: run.retry },
      };
    case "ended":
      return {
        title: "The walk has ended",
        text: endedText(detail),
        action: { label: "Walk again", run: run.again },
      };
    case "failed":
      return {
        title: "That did not work",
        text: sentence(detail.text),
        action: { label: "Try again", run: run.again },
      };
    default:
      return undefined;
  }
}

/** Errors come as they are written in the server: give them a capital and a full stop. */
export function sentence(text) {
  const trimmed = text.trim();
  return trimmed.charAt(0).toUpperCase() + trimmed.slice(1) + (/[.!?]$/.test(trimmed) ? "" : ".");
}

function endedText({ text, chunks }) {
  if (text) return text;
  if (chunks === undefined) return "";
  return chunks === 1 ? "One chunk was made." : `${chunks} chunks were made.`;
}
