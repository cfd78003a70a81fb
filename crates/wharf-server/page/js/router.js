// @ts-check
/** The address after `#`, which no server sees: `#/s/ID/r/ROW`, `#/new`, `#/search?q=`. */
import { app, changed, followRoute } from "./store.js";

/** @param {string} hash @returns {import("./store.js").Route} */
export function parseRoute(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const words = path.split("/").filter(Boolean).map(decodeURIComponent);
  const parameters = new URLSearchParams(query ?? "");
  if (words[0] === "s" && words[1]) {
    if (words[2] === "changes") return { kind: "changes", id: words[1], query: parameters.get("file") ?? "" };
    return { kind: "session", id: words[1], row: words[2] === "r" ? words[3] : undefined };
  }
  if (words[0] === "search") return { kind: "search", query: parameters.get("q") ?? "" };
  if (words[0] === "new") return { kind: "new", query: parameters.get("cwd") ?? "" };
  if (["devices", "about"].includes(words[0])) return { kind: words[0] };
  return { kind: "list" };
}

/** @param {string} id @param {string} [row] */
export const sessionLink = (id, row) => `#/s/${encodeURIComponent(id)}${row ? `/r/${encodeURIComponent(row)}` : ""}`;

/** @param {string} id @param {string} [file] */
export const changesLink = (id, file) =>
  `#/s/${encodeURIComponent(id)}/changes${file ? `?file=${encodeURIComponent(file)}` : ""}`;

/** @param {string} hash */
export function go(hash) {
  if (location.hash === hash) takeRoute();
  else location.hash = hash;
}

function takeRoute() {
  app.route = parseRoute(location.hash);
  followRoute();
  changed();
}

export function startRouter() {
  addEventListener("hashchange", takeRoute);
  takeRoute();
}
