// @ts-check
/** The order and the groups of the session list (rule 14.1): sessions that need a person first, then by workspace. */
import { placeOf } from "./format.js";

/** @import { Session } from "contract" */

export const NEEDS_YOU = ["needs_answer", "failed", "finished"];

/** @type {Record<string, { sign: string, word: string }>} */
export const STATES = {
  needs_answer: { sign: "?", word: "needs an answer" },
  failed: { sign: "!", word: "failed" },
  finished: { sign: "✓", word: "finished" },
  parked: { sign: "~", word: "parked" },
  working: { sign: "»", word: "working" },
  quiet: { sign: "", word: "quiet" },
};

/** @param {Session} session */
export function stateOf(session) {
  return session.attention?.state ?? "quiet";
}

/** Returns true if a session wants something from the person. @param {Session} session */
export function needsPerson(session) {
  const state = stateOf(session);
  return state === "needs_answer" || (NEEDS_YOU.includes(state) && !session.archived);
}

/** @param {Session} session */
export function signOf(session) {
  const state = stateOf(session);
  if (state === "quiet") {
    if (session.lastOutcome === "failed" || session.lastOutcome === "cut_off")
      return { sign: "!", word: "quiet, its last turn failed", state: "quiet-failed" };
    if (!["starting", "running"].includes(session.status))
      return { sign: "z", word: session.status === "killed" ? "ended" : "asleep", state: "asleep" };
  }
  return { ...(STATES[state] ?? { sign: "", word: state }), state };
}

/** @param {Session} session */
const since = (session) => session.attention?.since ?? session.startedAt;

/**
 * @param {Iterable<Session>} sessions
 * @param {Map<string, string>} answers the sessions whose question this page has just answered: they stay where they were
 * @returns {{ key: string, title: string, hint: string, sessions: Session[] }[]}
 */
export function groupSessions(sessions, answers = new Map()) {
  /** @type {Session[]} */
  const needs = [];
  /** @type {Session[]} */
  const archived = [];
  /** @type {Map<string, ReturnType<typeof groupSessions>[number]>} */
  const places = new Map();
  for (const session of sessions) {
    if (answers.has(session.id) || needsPerson(session)) needs.push(session);
    else if (session.archived) archived.push(session);
    else {
      const key = session.workspaceSlug === "default" ? session.cwd : session.workspaceSlug;
      const group = places.get(key) ?? { key, title: placeOf(session), hint: session.cwd, sessions: [] };
      group.sessions.push(session);
      places.set(key, group);
    }
  }
  const rank = (/** @type {Session} */ session) => (answers.has(session.id) ? 0 : NEEDS_YOU.indexOf(stateOf(session)));
  needs.sort(
    (a, b) =>
      rank(a) - rank(b) || (rank(a) === 0 ? order(since(a), since(b)) : order(since(b), since(a))) || order(a.id, b.id),
  );
  const working = (/** @type {Session} */ session) => (["working", "parked"].includes(stateOf(session)) ? 0 : 1);
  const newest = (/** @type {Session[]} */ list) =>
    list.sort((a, b) => working(a) - working(b) || order(since(b), since(a)) || order(b.id, a.id));
  const groups = [...places.values()].map((group) => ({ ...group, sessions: newest(group.sessions) }));
  groups.sort((a, b) => order(since(b.sessions[0]), since(a.sessions[0])) || order(a.key, b.key));
  const all = [];
  if (needs.length) all.push({ key: "needs", title: "Needs you", hint: "", sessions: needs });
  all.push(...groups);
  if (archived.length) all.push({ key: "archived", title: "Archived", hint: "", sessions: newest(archived) });
  return all;
}

/**
 * Returns the sessions with those that their agents started right after them, each with its depth.
 * @param {Session[]} sessions in their order
 * @returns {{ session: Session, depth: number }[]}
 */
export function nestChildren(sessions) {
  /** @type {Map<string, Session[]>} */
  const children = new Map(["", ...sessions.map((session) => session.id)].map((id) => [id, []]));
  for (const session of sessions) (children.get(session.parentSessionId ?? "") ?? children.get(""))?.push(session);
  /** @type {{ session: Session, depth: number }[]} */
  const nested = [];
  const add = (/** @type {string} */ parent, /** @type {number} */ depth) => {
    for (const session of children.get(parent) ?? []) {
      nested.push({ session, depth });
      add(session.id, depth + 1);
    }
  };
  add("", 0);
  return nested;
}

/** @param {string} a @param {string} b */
const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
