const HURRY_BEHIND = 0.25; // seconds of slack beyond the newest chunk: play a little faster
const JUMP_BEHIND = 1; // ... and from here jump, as after a hidden tab
const LEFT_AFTER_JUMP = 0.2;
const HURRY = 1.06;
const KEPT_SECONDS = 10; // already played
const NEARLY = 0.001; // seconds within which two times are one

const Source = globalThis.MediaSource ?? globalThis.ManagedMediaSource;

/**
 * Fragmented MP4 through Media Source Extensions, drawn from a video element onto the screen. The stream's timeline
 * never runs backwards: after a reset the new chunks follow on, and the player jumps to them.
 */
export class MsePlayer {
  static label = "MSE";
  static format = "m4s";

  /** @returns {Promise<boolean>} */
  static async supported(codec = "avc1.42c01e") {
    return Source !== undefined && Source.isTypeSupported(`video/mp4; codecs="${codec}"`);
  }

  /** @type {SourceBuffer | undefined} */
  #buffer;
  /** @type {{ bytes: ArrayBuffer, chunk: number, epoch: number }[]} */
  #waiting = [];
  /** @type {{ chunk: number, epoch: number } | undefined} what is being appended */
  #appending;
  /** @type {{ chunk: number, end: number }[]} appended and not yet over, with the media time of their end */
  #ends = [];
  #epoch = 0;
  #from = 0; // media time of the epoch's start
  #request = 0;
  #shown = -1;
  #closed = false;

  /**
   * @param {import("../screen.js").Screen} screen
   * @param {import("./players.js").PlayerEvents} events
   */
  constructor(screen, events) {
    this.screen = screen;
    this.events = events;
    this.video = screen.video;
    this.frames = 0;
    this.stalls = 0;
  }

  /** @param {import("./players.js").StreamConfig} config */
  async start({ codec }) {
    const source = new Source();
    this.url = URL.createObjectURL(source);
    this.video.disableRemotePlayback = true; // a managed source needs it
    this.video.src = this.url;
    this.#watch();
    await new Promise((resolve) => source.addEventListener("sourceopen", resolve, { once: true }));
    if (this.#closed) return;
    this.#buffer = source.addSourceBuffer(`video/mp4; codecs="${codec}"`);
    this.#buffer.mode = "sequence"; // chunks follow on, also where a stream that is resumed counts from elsewhere
    this.#buffer.addEventListener("updateend", () => this.#updated());
    this.#buffer.addEventListener("error", () => this.#fail(new Error("the media could not be read")));
    this.#append();
  }

  get bufferedSeconds() {
    return Math.max(0, this.#end() - Math.max(this.video.currentTime, this.#from));
  }

  /**
   * @param {{ transport_chunk_index: number }} meta
   * @param {ArrayBuffer} bytes one fragment, the first time with the initialisation in front
   */
  push({ transport_chunk_index: chunk }, bytes) {
    this.#waiting.push({ bytes, chunk, epoch: this.#epoch });
    this.#append();
  }

  reset() {
    this.#epoch += 1;
    this.#from = this.#end();
    this.#ends = [];
    this.video.pause();
  }

  close() {
    this.#closed = true;
    if (this.url === undefined) return;
    this.#unwatch();
    this.video.removeAttribute("src");
    this.video.load();
    URL.revokeObjectURL(this.url);
  }

  #append() {
    if (!this.#buffer || this.#buffer.updating || this.#closed || !this.#waiting.length) return;
    try {
      this.#buffer.appendBuffer(this.#waiting[0].bytes);
      this.#appending = this.#waiting.shift();
    } catch (error) {
      if (error.name === "QuotaExceededError")
        this.#buffer.remove(0, Math.max(NEARLY, this.video.currentTime - 1));
      else this.#fail(error);
    }
  }

  #updated() {
    if (this.#closed) return;
    const appended = this.#appending;
    this.#appending = undefined;
    if (appended?.epoch === this.#epoch) this.#follow(appended.chunk);
    else if (appended) this.#from = this.#end();
    if (this.#waiting.length) this.#append();
    else this.#forget();
  }

  /** Stay near the newest frame: start, hurry, or jump. */
  #follow(chunk) {
    const { video } = this;
    const ranges = this.#buffer.buffered;
    const end = this.#end();
    if (!this.#ends.length) this.#from = Math.max(this.#from, ranges.start(ranges.length - 1));
    const before = this.#ends.at(-1)?.end ?? this.#from;
    this.#ends.push({ chunk, end });
    const slack = before - video.currentTime;
    if (video.currentTime < this.#from) video.currentTime = this.#from;
    else if (slack > JUMP_BEHIND) video.currentTime = before - LEFT_AFTER_JUMP;
    video.playbackRate = slack > HURRY_BEHIND ? HURRY : 1;
    if (video.paused) video.play().catch((error) => error.name === "AbortError" || this.#fail(error));
  }

  /** Remove what was played long ago. */
  #forget() {
    const ranges = this.#buffer.buffered;
    const old = this.video.currentTime - KEPT_SECONDS;
    if (ranges.length && ranges.start(0) < old - KEPT_SECONDS) this.#buffer.remove(0, old);
  }

  #end() {
    const ranges = this.#buffer?.buffered;
    return ranges?.length ? ranges.end(ranges.length - 1) : 0;
  }

  #watch() {
    const { video } = this;
    video.onerror = () => this.#fail(video.error ?? new Error("the video element failed"));
    video.onwaiting = () => {
      if (this.#shown >= 0) this.stalls += 1;
    };
    if ("requestVideoFrameCallback" in video) {
      const draw = (now, frame) => {
        this.#request = video.requestVideoFrameCallback(draw);
        this.#draw(now, frame.mediaTime);
      };
      this.#request = video.requestVideoFrameCallback(draw);
    } else this.#watchClock();
  }

  /** For browsers that don't tell of each frame. */
  #watchClock() {
    let last = -1;
    const draw = (now) => {
      this.#request = requestAnimationFrame(draw);
      if (this.video.readyState < HTMLMediaElement.HAVE_CURRENT_DATA || this.video.currentTime === last)
        return;
      last = this.video.currentTime;
      this.#draw(now, last);
    };
    this.#request = requestAnimationFrame(draw);
  }

  #unwatch() {
    this.video.onerror = null;
    this.video.onwaiting = null;
    if ("cancelVideoFrameCallback" in this.video) this.video.cancelVideoFrameCallback(this.#request);
    else cancelAnimationFrame(this.#request);
  }

  #draw(now, mediaTime) {
    if (this.#closed || mediaTime < this.#from - NEARLY) return;
    this.screen.show(this.video);
    this.frames += 1;
    while (this.#ends.length > 1 && mediaTime > this.#ends[0].end - NEARLY) this.#ends.shift();
    const chunk = this.#ends[0]?.chunk;
    if (chunk === undefined || chunk === this.#shown) return;
    this.#shown = chunk;
    this.events.onShown(chunk, now);
  }

  #fail(error) {
    if (!this.#closed) this.events.onError(error);
  }
}
