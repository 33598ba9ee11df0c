/** Where the service lives: one folder above this file, whatever prefix a proxy puts in front. */
const root = new URL("..", import.meta.url);

/**
 * @param {string} path relative to the service's root, such as `v1/models`
 * @returns {URL}
 */
export function serviceUrl(path) {
  return new URL(path.replace(/^\/+/, ""), root);
}

/** @returns {URL} the address of the real-time socket, secure where the page is */
export function socketUrl() {
  const url = serviceUrl("v1/realtime/video");
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url;
}
