// @ts-check
/** Why a turn or a start failed, in words that say what to do. */

/** @import { Row, Session } from "contract" */

/** The code by which agents say that a login is needed (ACP). It is also the first one of JSON-RPC for errors of any server. */
const AUTH_REQUIRED = -32000;
const AUTH_CODE = new RegExp(`\\(${AUTH_REQUIRED}[;)]`);
const LOGIN_WORDS =
  /authentication required|\bnot (logged|signed) in\b|\blog ?in (is )?required|please (run \/login|log in|sign in)|invalid api key|\b401 unauthorized/i;
const LIMIT_WORDS =
  /\b(usage|rate|spending) limit|\bquota\b|too many requests|credit balance|insufficient (credits?|funds|balance|quota)/i;

/** Returns true if the words of a failure say that a login is needed. The code alone may stand for something else. @param {string} text */
export const namesLogin = (text) => LOGIN_WORDS.test(text);

/**
 * Returns the kind of a failure, or null for an end that is none: `login`, `limit`, `start`, `crash` or `error`.
 * @param {Row} row the end of a turn, or the notice of an end without a turn
 * @returns {"login" | "limit" | "start" | "crash" | "error" | null}
 */
export function failureOf(row) {
  const isEnd =
    row.kind === "turn_end" &&
    row.outcome === "failed" &&
    ["error", "start_failed", "agent_exited"].includes(row.reason);
  const isNotice = row.kind === "notice" && row.what === "ended" && row.level === "error";
  if (!isEnd && !isNotice) return null;
  const text = row.kind === "notice" ? row.text : (row.message ?? "");
  const reason = row.kind === "notice" ? "" : row.reason;
  const error = row.kind === "notice" ? null : /** @type {{ code?: number } | null | undefined} */ (row.error);
  const didNotStart = reason === "start_failed" || (isNotice && /did not start/.test(text));
  if (error?.code === AUTH_REQUIRED || AUTH_CODE.test(text) || namesLogin(text)) return "login";
  if (LIMIT_WORDS.test(text)) return "limit";
  if (didNotStart) return "start";
  return reason === "agent_exited" || isNotice ? "crash" : "error";
}

/**
 * Returns true for a notice that says again what the end of the turn before it has said.
 * @param {Row} row @param {Row | undefined} before
 */
export const repeatsFailure = (row, before) =>
  row.kind === "notice" &&
  row.what === "ended" &&
  before?.kind === "turn_end" &&
  ["start_failed", "agent_exited"].includes(before.reason) &&
  failureOf(before) !== null;

/** Returns the command that signs an agent in, on the machine of the host. @param {string} adapter */
export const loginCommand = (adapter) => `wharf login ${adapter}`;

/** Returns the line of the list about a session that failed. @param {Session} session */
export function describeAttention(session) {
  if (session.attention?.why === "login") return `not signed in: ${loginCommand(session.adapterSlug)}`;
  return session.attention?.text;
}
