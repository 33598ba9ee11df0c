import { ControlLatency, median } from "./latency.js";

const KEPT_CHUNKS = 16;
const KEPT_BUFFERS = 6; // samples: a chunk and a half
const FPS_WINDOW = 2000; // ms

const milliseconds = (value) => (value === undefined ? "–" : `${Math.round(value)} ms`);

/** What is measured while walking, and the figures on the page where this walk has the focus. */
export class Stats {
  latency = new ControlLatency();
  /** @type {number[]} ms in the server, without the queue */
  #chunkTimes = [];
  /** @type {{ at: number, frames: number }[]} */
  #drawn = [];
  /** @type {number[]} seconds */
  #buffers = [];
  #fps = 0;
  /** @type {Map<string, string>} an element's id -> what stands there */
  #texts = new Map();
  #seen = false;

  /** @param {(name: string) => HTMLElement} element finds the element of a figure */
  constructor(element) {
    this.element = element;
  }

  /**
   * @param {string} player
   * @param {{ codec: string, width: number, height: number, fps: number }} config
   */
  format(player, { codec, width, height, fps }) {
    this.#fps = fps;
    const coding = codec.startsWith("avc1") ? "H.264" : "an image per frame";
    this.#write("format", player, `${coding}, ${width} × ${height}`);
  }

  /** @param {Record<string, any>} meta `video.chunk_metadata` */
  arrived(meta) {
    this.latency.arrived(meta);
    if (!meta.timing) return;
    const { queue_ms: queue, denoise_ms: denoise, decode_ms: decode, encode_ms: encode } = meta.timing;
    this.#chunkTimes = [...this.#chunkTimes, denoise + decode + encode].slice(-KEPT_CHUNKS);
    const parts = Object.entries({ denoise, decode, encode }).map(
      ([name, time]) => `${name} ${Math.round(time)}`,
    );
    this.#write("chunk", milliseconds(median(this.#chunkTimes)), parts.join(", "));
    this.#write("queue", "0", `${milliseconds(queue)} for its turn`);
  }

  /**
   * @param {number} chunk
   * @param {number} now
   */
  shown(chunk, now) {
    this.latency.shown(chunk, now);
    const { last, median: middle, samples } = this.latency;
    if (!samples.length) return;
    const keys = samples.length === 1 ? "1 key" : `${samples.length} keys`;
    this.#write("photon", milliseconds(last), `median ${milliseconds(middle)} of ${keys}`);
  }

  /** @param {{ position: number, depth: number }} queue */
  queued({ position, depth }) {
    this.#write("queue", `${position} of ${depth}`, "waiting for a place");
  }

  /**
   * Called a few times per second.
   * @param {{ bufferedSeconds: number, frames: number, stalls: number }} player
   * @param {number} now
   */
  sample(player, now) {
    this.#drawn = [
      ...this.#drawn.filter(({ at }) => now - at <= FPS_WINDOW),
      { at: now, frames: player.frames },
    ];
    const [first] = this.#drawn;
    const rate = now > first.at ? ((player.frames - first.frames) * 1000) / (now - first.at) : 0;
    this.#write("fps", rate.toFixed(1), `of the video's ${this.#fps}`);
    this.#buffers = [...this.#buffers, player.bufferedSeconds].slice(-KEPT_BUFFERS);
    const least = Math.min(...this.#buffers).toFixed(2);
    const stalls = player.stalls === 1 ? "empty once" : `empty ${player.stalls} times`;
    this.#write(
      "buffer",
      `${least} s`,
      player.stalls ? `the least lately; ${stalls}` : "the least lately; never empty",
    );
  }

  /** @param {boolean} seen whether these figures are the ones on the page */
  see(seen) {
    this.#seen = seen;
    if (seen) for (const [id, text] of this.#texts) this.#show(id, text);
  }

  /** A new stream: nothing that waits will come. */
  restart() {
    this.latency.reset();
    this.#drawn = [];
    this.#buffers = [];
  }

  #write(name, value, more) {
    for (const [id, text] of [
      [`stat-${name}`, value],
      [`stat-${name}-more`, more],
    ]) {
      this.#texts.set(id, text);
      if (this.#seen) this.#show(id, text);
    }
  }

  #show(id, text) {
    const element = this.element(id);
    if (element.textContent !== text) element.textContent = text;
  }
}
