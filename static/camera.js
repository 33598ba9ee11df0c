const SCHEMA = "lingbot.camera_actions.v1";

/**
 * The keys that are held from now on, as the camera's control.
 * @param {string[]} actions
 * @param {number} now ms since the page was opened; only differences count
 * @returns {{ multi_modal_data: { camera: Record<string, any> } }}
 */
export function heldKeysEvent(actions, now) {
  const transitions = [{ actions, client_ts_ms: Math.round(now) }];
  return { multi_modal_data: { camera: { schema: SCHEMA, data: { mode: "state", transitions } } } };
}
