// @ts-check
/** Tells a screen reader what happens: one polite region and one that interrupts, at most one sentence in two seconds each. */

const GAP_MS = 2000;
/** @type {Record<string, { last: number, timer: ReturnType<typeof setTimeout> | undefined }>} */
const regions = { "say-politely": { last: 0, timer: undefined }, "say-now": { last: 0, timer: undefined } };

/** @param {string} id @param {string} text */
function say(id, text) {
  const region = regions[id];
  clearTimeout(region.timer);
  const wait = Math.max(0, region.last + GAP_MS - Date.now());
  region.timer = setTimeout(() => {
    region.last = Date.now();
    const element = document.getElementById(id);
    if (element) element.textContent = text;
  }, wait);
}

/** @param {string} text */
export const sayPolitely = (text) => say("say-politely", text);
/** @param {string} text */
export const sayNow = (text) => say("say-now", text);
