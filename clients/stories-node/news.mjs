// Waits for events: everything that a story receives is noted here, and every note wakes what waits.

/** How long a story may take before it counts as stuck. A story takes seconds; a stalled machine gets a lot more. */
const STUCK_AFTER_MS = 240_000;

export class News {
  #waiting = new Set();

  /** Tells everything that waits to look again. */
  wake() {
    for (const look of [...this.#waiting]) look();
  }

  /** Resolves with the result of `find` as soon as that is not undefined, null or false. */
  until(find) {
    return new Promise((resolve, reject) => {
      const look = () => {
        try {
          const found = find();
          if (!found) return;
          this.#waiting.delete(look);
          resolve(found);
        } catch (error) {
          this.#waiting.delete(look);
          reject(error);
        }
      };
      this.#waiting.add(look);
      look();
    });
  }
}

/** The step that the story is at, for the message of a story that is stuck. */
let step = "the beginning";

/** Names the step that begins. */
export function begin(name) {
  step = name;
}

/** Runs a story. The process ends with 1 if it fails or is stuck, and names the step. */
export async function tell(name, story) {
  const stuck = setTimeout(() => {
    console.error(`${name}: stuck at ${step}`);
    process.exit(1);
  }, STUCK_AFTER_MS);
  try {
    await story();
    console.log(`${name}: told`);
  } catch (error) {
    console.error(`${name}: failed at ${step}:`, error);
    process.exit(1);
  }
  clearTimeout(stuck);
}
