// @ts-check
/** Small values that the browser keeps for this page. Every call works without storage, such as in a private window. */

const PREFIX = `wharf:${new URL(".", document.baseURI).pathname}:`;

/** @param {string} key @returns {string | null} */
export function load(key) {
  try {
    return localStorage.getItem(PREFIX + key);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string | null} value */
export function save(key, value) {
  try {
    if (value === null || value === "") localStorage.removeItem(PREFIX + key);
    else localStorage.setItem(PREFIX + key, value);
  } catch {
    // A full or forbidden storage loses drafts, nothing else.
  }
}

/** Returns the names of the kept values that begin so. @param {string} beginning */
export function listNames(beginning) {
  try {
    const names = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX + beginning));
    return names.map((key) => key.slice(PREFIX.length));
  } catch {
    return [];
  }
}

/** Removes everything that this page has kept. */
export function clearAll() {
  try {
    for (const key of Object.keys(localStorage)) if (key.startsWith(PREFIX)) localStorage.removeItem(key);
  } catch {
    // There is nothing to remove then.
  }
}

/**
 * Calls back when another tab changes a value.
 * @param {(key: string, value: string | null) => void} callback
 */
export function onChangeElsewhere(callback) {
  addEventListener("storage", (event) => {
    if (event.key?.startsWith(PREFIX)) callback(event.key.slice(PREFIX.length), event.newValue);
  });
}
