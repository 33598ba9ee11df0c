import { JpegPlayer } from "./jpeg.js";
import { MsePlayer } from "./mse.js";
import { WebCodecsPlayer } from "./webcodecs.js";

/**
 * @typedef {object} StreamConfig what `video.start` says of the picture
 * @property {string} codec RFC 6381
 * @property {number} width pixels
 * @property {number} height pixels
 * @property {number} fps
 *
 * @typedef {object} PlayerEvents
 * @property {(chunk: number, now: number) => void} onShown the first frame of this transport chunk was drawn
 * @property {(error: Error) => void} onError the player can't go on
 */

/** The best first. */
export const PLAYERS = Object.freeze({ webcodecs: WebCodecsPlayer, mse: MsePlayer, jpeg: JpegPlayer });

/**
 * @param {string | null} wanted a name of `PLAYERS` that the page was opened with, or null for the best
 * @param {Set<string>} failed names that were tried and failed
 * @returns {Promise<string>} the name of the player to use
 * @throws {Error} where none is left, or the wanted one doesn't exist here
 */
export async function choosePlayer(wanted, failed = new Set()) {
  const names = Object.keys(PLAYERS);
  if (wanted !== null && !names.includes(wanted)) {
    throw new Error(`there is no decoder "${wanted}"; this page knows ${names.join(", ")}`);
  }
  for (const name of wanted === null ? names : [wanted]) {
    if (!failed.has(name) && (await PLAYERS[name].supported())) return name;
  }
  throw new Error(
    wanted === null
      ? "this browser can play none of H.264 (WebCodecs, Media Source) and JPEG"
      : `the decoder "${wanted}" does not work in this browser`,
  );
}
