import { serviceUrl } from "./address.js";
import { firstFrame } from "./upload.js";

const OWN = "an image of yours";

/**
 * @typedef {object} Choice what a walk starts from
 * @property {string} title
 * @property {string} prompt
 * @property {{ scene: string } | { image_reference: { image_url: string } }} start fields of `session.start`
 * @property {CanvasImageSource} [preview] its first frame, once it is there
 */

/** The places to choose from: the model's scenes, and an image that the visitor brings. */
export class ScenePicker {
  /** @type {Choice | undefined} */
  choice;

  /**
   * @param {{ grid: HTMLElement, upload: HTMLInputElement, problem: HTMLElement, dropZones: HTMLElement[] }} elements
   * @param {(choice: Choice) => void} onChoice also called again when a preview has arrived
   */
  constructor(elements, onChoice) {
    this.elements = elements;
    this.onChoice = onChoice;
    elements.upload.addEventListener("change", () => {
      const [file] = elements.upload.files;
      if (file) this.#take(file);
      elements.upload.value = ""; // so that the same file can be chosen again
    });
    for (const zone of elements.dropZones) this.#listenForDrops(zone);
  }

  /**
   * @param {import("./models.js").Model} model
   * @param {string | null} wanted the name of a scene that the page was opened with
   */
  fill(model, wanted) {
    this.model = model;
    const first = model.scenes.find((scene) => scene.name === wanted) ?? model.scenes[0];
    const cards = model.scenes.map((scene) => {
      const choice = { title: scene.title, prompt: scene.prompt, start: { scene: scene.name } };
      const card = this.#card(choice, scene === first);
      if (scene.image) this.#preview(card, choice, serviceUrl(scene.image));
      return card;
    });
    this.elements.grid.replaceChildren(...cards);
  }

  /** @param {Choice} choice */
  #choose(choice) {
    this.choice = choice;
    this.elements.problem.hidden = true;
    this.onChoice(choice);
  }

  /**
   * @param {Choice} choice
   * @param {boolean} checked
   */
  #card(choice, checked) {
    const card = document.createElement("label");
    card.className = "scene";
    const radio = document.createElement("input");
    Object.assign(radio, { type: "radio", name: "scene", checked, value: choice.title });
    radio.addEventListener("change", () => this.#choose(choice));
    const title = document.createElement("span");
    title.textContent = choice.title;
    card.title = choice.prompt;
    card.append(radio, title);
    if (checked) this.#choose(choice);
    return card;
  }

  #preview(card, choice, url) {
    const image = document.createElement("img");
    image.alt = "";
    image.src = url.href;
    image.addEventListener("load", () => {
      choice.preview = image;
      if (this.choice === choice) this.onChoice(choice);
    });
    image.addEventListener("error", () => image.remove());
    card.prepend(image);
  }

  /** @param {File} file */
  async #take(file) {
    const { grid, problem } = this.elements;
    try {
      const preview = await firstFrame(file, this.model.width, this.model.height);
      const image_reference = { image_url: preview.toDataURL("image/png") };
      grid.querySelector("[data-own]")?.remove();
      const prompt = this.choice?.prompt ?? "";
      const card = this.#card({ title: OWN, prompt, start: { image_reference }, preview }, true);
      card.dataset.own = "";
      const thumbnail = document.createElement("img");
      Object.assign(thumbnail, { alt: "", src: image_reference.image_url });
      card.prepend(thumbnail);
      grid.append(card);
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
  }

  /** @param {HTMLElement} zone */
  #listenForDrops(zone) {
    zone.addEventListener("dragover", (event) => {
      event.preventDefault();
      zone.dataset.over = "true";
    });
    zone.addEventListener("dragleave", () => delete zone.dataset.over);
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      delete zone.dataset.over;
      const [file] = event.dataTransfer.files;
      if (file && this.model) this.#take(file);
    });
  }
}
