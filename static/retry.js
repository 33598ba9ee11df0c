/** When to try again after a connection ended, and after how long. Pure. */

const FIRST_DELAY = 0.5;
const LONGEST_DELAY = 15;

/** The session is not there any more. */
export const GONE = Object.freeze([4404, 4410]);
export const TAKEN_OVER = 4409;

/** Why a socket closed, in the visitor's words; `again`: whether trying again can help. */
const CLOSINGS = Object.freeze({
  1000: { again: false, text: "The session has ended." },
  1001: { again: true, text: "The server is shutting down." },
  1003: { again: false, text: "The server did not understand this page." },
  1006: { again: true, text: "The server can't be reached." },
  1007: { again: false, text: "The server did not understand this page." },
  1008: { again: false, text: "The server refused this page." },
  1009: { again: false, text: "What this page sent was too large." },
  1011: { again: true, text: "Something failed in the server." },
  1012: { again: true, text: "The server is restarting." },
  1013: { again: true, text: "All places are taken at the moment." },
  4404: { again: false, text: "The server does not know this walk any more." },
  4408: { again: true, text: "The connection stalled." },
  4409: { again: false, text: "Another page has taken over this walk." },
  4410: { again: false, text: "This walk was closed." },
});

/**
 * @param {number} code the close code
 * @param {{ message: string, retryable: boolean } | undefined} error the server's last word, if it said one
 * @returns {{ again: boolean, text: string }}
 */
export function judgeClosing(code, error) {
  const known = CLOSINGS[code] ?? {
    again: code >= 1001 && code <= 1015,
    text: `The connection closed (${code}).`,
  };
  const full = error?.code === "capacity_exceeded";
  const plain = full || code === TAKEN_OVER || GONE.includes(code); // said better here
  return error && !plain ? { again: error.retryable === true, text: error.message } : known;
}

/**
 * @param {number} attempt 0 for the first
 * @param {number} chance 0 to 1, so that many visitors don't come back at the same moment
 * @returns {number} seconds
 */
export function retryDelay(attempt, chance = Math.random()) {
  return Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** attempt) * (0.75 + chance / 2);
}
