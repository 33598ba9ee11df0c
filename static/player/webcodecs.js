import { Playback } from "./playback.js";

/**
 * Software first: at these sizes it costs little, and a hardware decoder has a least size and a small pool of
 * frames, which a chunk that waits to be shown would exhaust.
 * @param {string} codec RFC 6381
 * @returns {VideoDecoderConfig[]}
 */
function configurations(codec, width, height) {
  const common = { codec, codedWidth: width, codedHeight: height, optimizeForLatency: true };
  return [{ ...common, hardwareAcceleration: "prefer-software" }, common];
}

async function supportedConfiguration(codec, width, height) {
  for (const configuration of configurations(codec, width, height)) {
    const { supported } = await VideoDecoder.isConfigSupported(configuration);
    if (supported) return configuration;
  }
  return undefined;
}

const SILENCE_MS = 8000; // without a picture, and the decoder counts as broken

/** Annex B access units through WebCodecs: the shortest way from a chunk to the screen. */
export class WebCodecsPlayer {
  static label = "WebCodecs";
  static format = "annexb";

  /** @returns {Promise<boolean>} whether this browser has it (it needs a secure context) */
  static async supported(codec = "avc1.42c01e", width = 832, height = 480) {
    if (!("VideoDecoder" in globalThis)) return false;
    return (await supportedConfiguration(codec, width, height)) !== undefined;
  }

  /** @type {VideoDecoder | undefined} */
  #decoder;
  /** @type {VideoDecoderConfig | undefined} */
  #configuration;
  #clock = 0;
  #heard = 0; // when the decoder last gave a picture, or began to owe one
  /** @type {Map<number, number>} timestamp in microseconds -> chunk */
  #chunkOf = new Map();
  #closed = false;

  /**
   * @param {import("../screen.js").Screen} screen
   * @param {import("./players.js").PlayerEvents} events
   */
  constructor(screen, events) {
    this.screen = screen;
    this.events = events;
  }

  /** @param {import("./players.js").StreamConfig} config */
  async start({ codec, width, height, fps }) {
    this.interval = 1e6 / fps;
    this.playback = new Playback(this.screen, fps, this.events.onShown);
    this.#configuration = await supportedConfiguration(codec, width, height);
    if (!this.#configuration) throw new Error(`this browser's WebCodecs can't decode ${codec}`);
    if (!this.#closed) this.#open();
  }

  get bufferedSeconds() {
    return this.playback?.pacer.bufferedSeconds ?? 0;
  }

  get frames() {
    return this.playback?.frames ?? 0;
  }

  get stalls() {
    return this.playback?.pacer.stalls ?? 0;
  }

  /**
   * @param {{ transport_chunk_index: number, frame_sizes: number[] }} meta
   * @param {ArrayBuffer} bytes access units one after another; the first is a key frame
   */
  push(meta, bytes) {
    if (this.#decoder?.state !== "configured") return;
    const now = performance.now();
    if (!this.#chunkOf.size) this.#heard = now;
    if (now - this.#heard > SILENCE_MS) throw new Error("the decoder gives no pictures");
    let start = 0;
    meta.frame_sizes.forEach((size, index) => {
      const timestamp = Math.round(this.#clock++ * this.interval);
      this.#chunkOf.set(timestamp, meta.transport_chunk_index);
      const data = new Uint8Array(bytes, start, size);
      this.#decoder.decode(new EncodedVideoChunk({ type: index ? "delta" : "key", timestamp, data }));
      start += size;
    });
  }

  /** Forget everything of the old picture; the next chunk starts with a key frame, as every chunk does. */
  reset() {
    this.playback?.reset();
    this.#chunkOf.clear();
    if (this.#decoder?.state !== "configured") return;
    this.#decoder.reset();
    this.#decoder.configure(this.#configuration);
  }

  close() {
    this.#closed = true;
    this.playback?.close();
    if (this.#decoder && this.#decoder.state !== "closed") this.#decoder.close();
  }

  #open() {
    this.#decoder = new VideoDecoder({
      output: (frame) => this.#decoded(frame),
      error: (error) => this.events.onError(error),
    });
    this.#decoder.configure(this.#configuration);
  }

  /** @param {VideoFrame} frame */
  #decoded(frame) {
    this.#heard = performance.now();
    const chunk = this.#chunkOf.get(frame.timestamp);
    this.#chunkOf.delete(frame.timestamp);
    if (chunk === undefined || this.#closed) frame.close();
    else this.playback.push(frame, chunk);
  }
}
