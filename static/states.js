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
        title: detail.attempt ? "Reconnecting" : "Connecting",
        busy: true,
        fine: detail.attempt ? NO_RESUME : "",
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
        title: "Connection lost",
        text: `${detail.text} Trying again in ${detail.seconds} s.`,
        fine: NO_RESUME,
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
        text: detail.text,
        action: { label: "Try again", run: run.again },
      };
    default:
      return undefined;
  }
}

function endedText({ text, chunks }) {
  if (text) return text;
  if (chunks === undefined) return "";
  return chunks === 1 ? "One chunk was made." : `${chunks} chunks were made.`;
}
