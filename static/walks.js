const WALKS = "worldline.walks";
const PICTURES = "worldline.pictures";
const QUALITY = 0.9;

/**
 * @typedef {object} SavedWalk what a page that is loaded again needs to go on
 * @property {import("./session.js").Walk} walk
 * @property {string} title
 * @property {string} opening the prompt that it began with
 * @property {string} prompt
 * @property {string} player its name in `PLAYERS`: the session has that player's format
 * @property {import("./moments.js").Moment[]} moments
 */

/**
 * The walks of this tab, in its session storage: they outlive a reload of the page, and end with the tab. What can't
 * be stored is left out.
 */
export class SavedWalks {
  /** @param {SavedWalk[]} walks */
  save(walks) {
    this.#store(
      WALKS,
      walks.map(({ moments: _, ...walk }) => walk),
    );
  }

  /**
   * The pictures of their timelines, which take longer: before the page goes.
   * @param {SavedWalk[]} walks
   */
  savePictures(walks) {
    const strips = walks.map(({ walk, moments }) => [walk.session_id, moments.map(stored)]);
    this.#store(PICTURES, Object.fromEntries(strips));
  }

  /** @returns {Promise<SavedWalk[]>} */
  async load() {
    const strips = this.#read(PICTURES) ?? {};
    const walks = this.#read(WALKS) ?? [];
    return Promise.all(
      walks.map(async (saved) => ({ ...saved, moments: await loaded(strips[saved.walk.session_id] ?? []) })),
    );
  }

  #store(key, value) {
    try {
      sessionStorage.setItem(key, JSON.stringify(value));
    } catch {
      // full, or forbidden in this browser
    }
  }

  #read(key) {
    try {
      return JSON.parse(sessionStorage.getItem(key) ?? "null");
    } catch {
      return undefined;
    }
  }
}

function stored({ chunk, prompt, picture }) {
  const drawn = picture instanceof HTMLCanvasElement;
  return { chunk, prompt, url: drawn ? picture.toDataURL("image/jpeg", QUALITY) : picture.src };
}

async function loaded(moments) {
  const pictures = moments.map(({ url }) => Object.assign(new Image(), { src: url }));
  await Promise.allSettled(pictures.map((picture) => picture.decode()));
  return moments
    .map(({ chunk, prompt }, index) => ({ chunk, prompt, picture: pictures[index] }))
    .filter(({ picture }) => picture.naturalWidth > 0);
}
