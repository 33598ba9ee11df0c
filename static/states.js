import { ordinal } from "./words.js";

/** What the page says in each state of a session. */

const RESUMES = "Your walk goes on where it was.";

/** @type {Record<import("./session.js").State, string>} */
export const LINK_TEXTS = Object.freeze({
  idle: "Not connected",
  connecting: "Connecting",
  queued: "In line",
  opening: "Opening",
  playing: "Live",
  lost: "Connection lost",
  ended: "Ended",
  failed: "Not connected",
  gone: "Ended",
  taken: "Elsewhere",
});

/**
 * @param {import("./session.js").State} state
 * @param {Record<string, any>} detail
 * @param {{ again: () => void, retry: () => void }} run what the button does
 * @returns {import("./veil.js").VeilContent | undefined} none where the picture says enough
 */
export function veilOf(state, detail, run) {
  const fine = detail.walked ? RESUMES : "";
  switch (state) {
    case "connecting":
      return { title: detail.attempt ? "Connecting again" : "Connecting", busy: true, fine };
    case "queued":
      return { ...queueText(detail), busy: true };
    case "opening":
      if (detail.walked) return { title: "Going on", busy: true, picture: true };
      return { title: "Opening the world", text: "Its first pictures are being made.", busy: true };
    case "lost":
      return {
        title: detail.refused ? "Not possible just now" : "Connection lost",
        text: `${sentence(detail.text)} Trying again in ${detail.seconds} s.`,
        fine,
        action: { label: "Try now", run: run.retry },
      };
    case "taken":
      return {
        title: "Your walk goes on elsewhere",
        text: sentence(detail.text),
        action: { label: "Continue it here", run: run.retry },
      };
    case "gone":
      return {
        title: "This walk is gone",
        text: `${sentence(detail.text)} You can begin a new one.`,
        action: { label: "New walk", run: run.again },
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

/**
 * What the server says on the way, in plain words.
 * @param {Record<string, any>} message
 * @returns {string | undefined} none where there is nothing to say
 */
export function noticeOf(message) {
  switch (message.type) {
    case "session.reset":
      return "Back at the first frame.";
    case "session.warning":
      return sentence(message.message);
    case "session.interaction.rejected":
      return message.retryable ? undefined : sentence(message.message); // it is said again
    case "session.draining":
      return `The server restarts within ${Math.round(message.grace_seconds)} s. Your walk is kept and goes on then.`;
    case "session.evicted":
      return "Others needed the room: your world was put aside, and comes back with its next picture.";
    default:
      return undefined;
  }
}

/** @param {{ position: number, depth: number }} queue */
function queueText({ position, depth }) {
  const place = `${ordinal(position)} of ${Math.max(position, depth)} in line`;
  const title = position === 1 ? "You are next" : `You are ${ordinal(position)} in line`;
  return { title, text: `${place} for a place. It starts by itself.` };
}

/** Errors come as they are written in the server: give them a capital and a full stop. */
export function sentence(text) {
  const trimmed = text.trim();
  return trimmed.charAt(0).toUpperCase() + trimmed.slice(1) + (/[.!?]$/.test(trimmed) ? "" : ".");
}

function endedText({ text, chunks }) {
  if (text) return text;
  if (!chunks) return "";
  return chunks === 1 ? "One chunk was made." : `${chunks} chunks were made.`;
}
