const KEPT = 32;

/**
 * Control-to-photon: from a key to the first picture of the first chunk whose `started_event_ids` name it.
 * Pure: the caller brings the clock.
 */
export class ControlLatency {
  /** @type {Map<string, number>} event id -> when the key went down, in ms */
  #pressed = new Map();
  /** @type {Map<number, number[]>} transport chunk -> when its keys went down, in ms */
  #started = new Map();
  /** @type {number[]} ms, the newest last */
  samples = [];

  /**
   * @param {string} event
   * @param {number} now
   */
  pressed(event, now) {
    this.#pressed.set(event, now);
  }

  /** @param {{ transport_chunk_index: number, started_event_ids?: string[] }} meta */
  arrived({ transport_chunk_index: chunk, started_event_ids: events = [] }) {
    const times = events.map((event) => this.#pressed.get(event)).filter((time) => time !== undefined);
    for (const event of events) this.#pressed.delete(event);
    if (times.length) this.#started.set(chunk, times);
  }

  /**
   * @param {number} chunk
   * @param {number} now
   */
  shown(chunk, now) {
    for (const [started, times] of this.#started) {
      if (started > chunk) continue;
      if (started === chunk) this.samples.push(...times.map((time) => now - time));
      this.#started.delete(started);
    }
    this.samples = this.samples.slice(-KEPT);
  }

  /** Forget what waits, but not what was measured. */
  reset() {
    this.#pressed.clear();
    this.#started.clear();
  }

  /** @returns {number | undefined} ms */
  get last() {
    return this.samples.at(-1);
  }

  /** @returns {number | undefined} ms */
  get median() {
    return median(this.samples);
  }
}

/**
 * @param {number[]} values
 * @returns {number | undefined} the middle value, or the mean of the two in the middle
 */
export function median(values) {
  if (!values.length) return undefined;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
