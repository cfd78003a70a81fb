// @ts-check
/** Keys of the whole page. Single letters never act in fields, and can be switched off. */
import { go } from "./router.js";
import { app } from "./store.js";
import * as storage from "./storage.js";
import { moveInList } from "./views/list.js";

let findWasOpened = 0;

/** @param {(open: boolean) => void} setPalette */
export function startKeys(setPalette) {
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.defaultPrevented || app.login !== "in") return;
    const withControl = event.ctrlKey || event.metaKey;
    if (withControl && event.key.toLowerCase() === "k") {
      event.preventDefault();
      return setPalette(true);
    }
    if (withControl && event.key.toLowerCase() === "f" && app.route.kind === "session") {
      // The second time is for the browser's own search.
      if (Date.now() - findWasOpened < 3000) return;
      findWasOpened = Date.now();
      event.preventDefault();
      return void dispatchEvent(new Event("wharf-find"));
    }
    const target = /** @type {HTMLElement} */ (event.target);
    const inField = target.closest?.("input, textarea, select, [contenteditable]");
    if (event.key === "Escape" && inField && !target.closest("dialog"))
      return document.getElementById("transcript")?.focus();
    if (withControl || event.altKey || inField || target.closest?.("dialog") || storage.load("keys") === "off") return;
    /** @type {Record<string, () => void>} */
    const actions = {
      j: () => moveInList(1),
      k: () => moveInList(-1),
      n: () => go("#/new"),
      "/": () => go("#/search"),
      i: () => document.getElementById("composer")?.focus(),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  };
  addEventListener("keydown", onKey);
  return () => removeEventListener("keydown", onKey);
}
