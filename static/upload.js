const TYPES = ["image/png", "image/jpeg", "image/webp"];

/**
 * The file as a first frame: cut to the model's shape around its middle and brought to its size, so that little
 * travels and nothing is too large for the server.
 * @param {File} file
 * @param {number} width pixels
 * @param {number} height pixels
 * @returns {Promise<HTMLCanvasElement>}
 * @throws {Error} in the visitor's words
 */
export async function firstFrame(file, width, height) {
  if (!TYPES.includes(file.type)) {
    throw new Error(`"${file.name}" is ${file.type || "of an unknown kind"}; PNG, JPEG and WebP work.`);
  }
  const image = await createImageBitmap(file).catch(() => {
    throw new Error(`"${file.name}" can't be read as an image.`);
  });
  const scale = Math.max(width / image.width, height / image.height);
  const [cutWidth, cutHeight] = [width / scale, height / scale];
  const [left, top] = [(image.width - cutWidth) / 2, (image.height - cutHeight) / 2];
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d", { alpha: false });
  context.imageSmoothingQuality = "high";
  context.drawImage(image, left, top, cutWidth, cutHeight, 0, 0, width, height);
  image.close();
  return canvas;
}
