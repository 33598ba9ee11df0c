import { serviceUrl } from "./address.js";

/**
 * @param {string} path relative to the service's root
 * @param {{ key?: string, method?: string, body?: Record<string, any> }} [options] `key`: an API key, or ""
 * @returns {Promise<any>} what the server answered; undefined where that is nothing
 * @throws {Error} in the visitor's words; `status` is the HTTP status, where there was an answer
 */
export async function ask(path, { key = "", method = "GET", body } = {}) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  if (body) headers["Content-Type"] = "application/json";
  const answer = await fetch(serviceUrl(path), { method, headers, body: body && JSON.stringify(body) });
  const told = await answer.json().catch(() => undefined);
  if (answer.ok) return told;
  const text = told?.detail ?? `The server answered ${answer.status}.`;
  throw Object.assign(new Error(text), { status: answer.status });
}

const pathOf = (session) => `v1/sessions/${encodeURIComponent(session)}`;

/**
 * @param {string} session the id of the one that is left
 * @param {number} chunk how many of its chunks are shared
 * @param {string} key
 * @returns {Promise<{ session_id: string, token: string }>} another session with the same past
 */
export function fork(session, chunk, key) {
  return ask(`${pathOf(session)}/fork`, { key, method: "POST", body: { at_chunk: chunk } });
}

/**
 * Close a session that nobody wants any more; whether that worked is not this page's concern.
 * @param {string} session
 * @param {string} key
 */
export async function close(session, key) {
  await ask(pathOf(session), { key, method: "DELETE" }).catch(() => undefined);
}
