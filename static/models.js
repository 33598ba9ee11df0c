import { ask } from "./rest.js";

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
  return (await ask("v1/models", { key })).data[0];
}
