/**
 * Where the picture is. Frames are small (96 x 64, say) and shown large: each is copied once at its own size, then
 * scaled up smoothly to the pixels of the device, again whenever the page changes its size.
 */
export class Screen {
  /** @type {CanvasImageSource | undefined} */
  #past;

  /**
   * @param {HTMLCanvasElement} canvas what the visitor sees
   * @param {HTMLVideoElement} video decodes out of sight, for Media Source Extensions
   */
  constructor(canvas, video) {
    this.canvas = canvas;
    this.video = video;
    this.context = canvas.getContext("2d", { alpha: false });
    this.picture = document.createElement("canvas");
    this.pictureContext = this.picture.getContext("2d", { alpha: false });
    this.empty = true;
    new ResizeObserver(([entry]) => this.#resize(entry)).observe(canvas);
  }

  /** @param {VideoFrame | ImageBitmap | HTMLVideoElement | HTMLImageElement | HTMLCanvasElement} frame */
  show(frame) {
    const width = frame.displayWidth ?? frame.videoWidth ?? frame.naturalWidth ?? frame.width;
    const height = frame.displayHeight ?? frame.videoHeight ?? frame.naturalHeight ?? frame.height;
    if (this.picture.width !== width || this.picture.height !== height) {
      this.picture.width = width;
      this.picture.height = height;
    }
    this.pictureContext.drawImage(frame, 0, 0, width, height);
    this.empty = false;
    if (!this.#past) this.#draw();
  }

  /**
   * Show this instead of what is shown now, which goes on unseen.
   * @param {CanvasImageSource | undefined} picture none: now again
   */
  look(picture) {
    this.#past = picture;
    this.#draw();
  }

  clear() {
    this.empty = true;
    this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
  }

  /** @param {ResizeObserverEntry} entry */
  #resize(entry) {
    const scale = window.devicePixelRatio;
    const width = Math.max(1, Math.round(entry.contentRect.width * scale));
    const height = Math.max(1, Math.round(entry.contentRect.height * scale));
    if (this.canvas.width === width && this.canvas.height === height) return;
    this.canvas.width = width;
    this.canvas.height = height;
    this.#draw();
  }

  #draw() {
    const picture = this.#past ?? this.picture;
    if (this.empty && !this.#past) return;
    this.context.imageSmoothingEnabled = true;
    this.context.imageSmoothingQuality = "high";
    this.context.drawImage(picture, 0, 0, this.canvas.width, this.canvas.height);
  }
}
