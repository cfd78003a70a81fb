// @ts-check
/**
 * Browsers open at most six connections to a host over plain HTTP, for all tabs together. Four tabs may hold a stream; further
 * ones, and tabs that nobody sees, look at theirs for a moment now and then.
 */
import { randomText } from "./api.js";

const MAX_HELD = 4;
const REFRESH_MS = 3000;
/** A tab that has not said that it lives for so long is gone. */
const STALE_MS = 10_000;
const PREFIX = `wharf:${new URL(".", document.baseURI).pathname}:stream:`;
const own = PREFIX + randomText();
let holds = false;

/** Returns how many other tabs hold a stream. */
function countOthers() {
  const now = Date.now();
  let count = 0;
  for (const key of Object.keys(localStorage).filter((name) => name.startsWith(PREFIX) && name !== own)) {
    if (now - Number(localStorage.getItem(key)) < STALE_MS) count += 1;
    else localStorage.removeItem(key);
  }
  return count;
}

/** Returns true if this tab may hold a stream open, and takes a place for it. */
export function takeSlot() {
  try {
    if (document.visibilityState === "hidden" || (!holds && countOthers() >= MAX_HELD)) {
      freeSlot();
      return false;
    }
    holds = true;
    localStorage.setItem(own, String(Date.now()));
    return true;
  } catch {
    return true;
  }
}

/** Gives the place to another tab. */
export function freeSlot() {
  holds = false;
  try {
    localStorage.removeItem(own);
  } catch {
    // Without storage there are no places.
  }
}

setInterval(() => {
  if (holds) takeSlot();
}, REFRESH_MS);
addEventListener("pagehide", freeSlot);
