import { serviceUrl } from "./address.js";

/**
 * @typedef {object} Scene
 * @property {string} name
 * @property {string} title
 * @property {string} prompt
 * @property {string} [image] address of its first frame, where the server has one
 *
 * @typedef {object} Model what the server says of the model that it serves
 * @property {string} id
 * @property {number} width pixels
 * @property {number} height pixels
 * @property {number} fps
 * @property {number} chunk_frames
 * @property {string} description
 * @property {Scene[]} scenes
 */

/**
 * @param {string} key an API key, or ""
 * @returns {Promise<Model>}
 * @throws {Error} in the visitor's words; `status` is the HTTP status, where there was an answer
 */
export async function fetchModel(key) {
  const answer = await fetch(
    serviceUrl("v1/models"),
    key ? { headers: { Authorization: `Bearer ${key}` } } : {},
  );
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const text = body.detail ?? `The server answered ${answer.status}.`;
    throw Object.assign(new Error(text), { status: answer.status });
  }
  return body.data[0];
}
