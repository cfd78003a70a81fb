// @ts-check
/** Texts that were typed and not sent, kept per session. The newest edit of all tabs counts. */
import * as storage from "./storage.js";

/** @type {Map<string, Set<(text: string) => void>>} */
const listeners = new Map();

/** @param {string} name */
export const readDraft = (name) => storage.load(`draft:${name}`) ?? "";

/** @param {string} name @param {string} text */
export const writeDraft = (name, text) => storage.save(`draft:${name}`, text);

/** Calls back when another tab changes this draft. @param {string} name @param {(text: string) => void} callback */
export function onDraftElsewhere(name, callback) {
  const known = listeners.get(name) ?? new Set();
  listeners.set(name, known.add(callback));
  return () => void known.delete(callback);
}

storage.onChangeElsewhere((key, value) => {
  if (key.startsWith("draft:")) listeners.get(key.slice(6))?.forEach((callback) => callback(value ?? ""));
});
