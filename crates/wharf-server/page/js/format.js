// @ts-check
/** Times, sizes and counts in words. */
import { plainText } from "./text.js";

/** @import { Session } from "contract" */

/** @param {string} at */
export function age(at, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - Date.parse(at)) / 1000));
  if (seconds < 60) return seconds < 10 ? "now" : `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

/** @param {number} millis */
export function duration(millis) {
  const seconds = Math.round(millis / 1000);
  if (seconds < 60) return `${millis < 10_000 ? (millis / 1000).toFixed(1) : seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

// Making these is slow, using them is not.
const CLOCK_FORMAT = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit" });
const DATE_FORMAT = new Intl.DateTimeFormat([], { dateStyle: "full", timeStyle: "medium" });

/** @param {string} at */
export const clock = (at) => CLOCK_FORMAT.format(new Date(at));
/** @param {string} at */
export const fullDate = (at) => DATE_FORMAT.format(new Date(at));

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1 << 20) return `${Math.round(bytes / 1024)} KB`;
  return `${(bytes / (1 << 20)).toFixed(1)} MB`;
}

/** @param {number} number */
export function shortNumber(number) {
  if (number < 1000) return String(number);
  if (number < 1_000_000) return `${(number / 1000).toFixed(number < 10_000 ? 1 : 0)}k`;
  return `${(number / 1_000_000).toFixed(1)}M`;
}

/** @param {number} count @param {string} one @param {string} [many] */
export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

/** Returns a count of tokens: `≥` marks a lower bound, `?` a guess. @param {{ atLeast?: boolean, guessed?: boolean }} usage @param {number | null | undefined} count */
export const tokenCount = (usage, count) =>
  `${usage.atLeast ? "≥" : ""}${shortNumber(count ?? 0)}${usage.guessed ? "?" : ""}`;

/** @param {{ amount: number, currency: string } | null | undefined} cost */
export function money(cost) {
  if (!cost) return "";
  // Costs of single turns are often less than a cent.
  const amount = cost.amount.toFixed(cost.amount === 0 || cost.amount >= 0.1 ? 2 : 4);
  return cost.currency === "USD" ? `$${amount}` : `${amount} ${cost.currency}`;
}

/** @param {Session} session */
export const titleOf = (session) => session.title || session.label || session.name || session.adapterSlug;

/** @param {string} path */
export const baseName = (path) => path.split("/").filter(Boolean).at(-1) ?? "/";

/** Returns the workspace of a session as a person calls it. @param {Session} session */
export const placeOf = (session) =>
  plainText(session.workspaceSlug === "default" ? baseName(session.cwd) : session.workspaceSlug);
