/**
 * @param {{ first_chunk_frames: number, chunk_frames: number, fps: number }} config of `video.start`
 * @param {number} chunk
 * @returns {number} seconds of video before it
 */
export function secondsBefore({ first_chunk_frames: first, chunk_frames: frames, fps }, chunk) {
  return chunk ? (first + (chunk - 1) * frames) / fps : 0;
}

/**
 * @param {number} seconds
 * @returns {string} such as `1:05`
 */
export function clockText(seconds) {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/**
 * @param {number} place
 * @returns {string} such as `3rd`
 */
export function ordinal(place) {
  const teen = place % 100 > 10 && place % 100 < 14;
  return `${place}${teen ? "th" : (["th", "st", "nd", "rd"][place % 10] ?? "th")}`;
}
