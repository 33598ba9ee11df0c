/**
 * Say what is served, in the page's own words.
 * @param {import("./models.js").Model} model
 * @param {(id: string) => HTMLElement} element
 */
export function describe(model, element) {
  document.documentElement.style.setProperty("--ratio", String(model.width / model.height));
  element("model").textContent = model.id;
  if (model.description) element("about-text").textContent = model.description;
  const seconds = (model.chunk_frames / model.fps).toFixed(2);
  element("about-numbers").textContent =
    `${model.width} × ${model.height} pixels at ${model.fps} per second, made ${model.chunk_frames} at a time: ` +
    `what you press takes effect with the next chunk, every ${seconds} s. The picture is scaled up for your screen.`;
}
