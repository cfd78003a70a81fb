// @ts-check
/** The state of the page, and the one stream that keeps it current: the list of sessions and the rows of the open one. */
import { useEffect, useState } from "preact/hooks";
import * as api from "./api.js";
import { followStream } from "./event_stream.js";
import { onAnswersChange, probeHost, setFollowing } from "./host_watch.js";
import { clearOutbox, connectOutbox } from "./outbox.js";
import * as storage from "./storage.js";
import { Transcript } from "./transcript.js";

/** @import { Session, SessionStreamEvent } from "contract" */

/** An answered session stays at its place in the list for so long. */
const ANSWER_SHOWN_MS = 3000;
const MESSAGE_SHOWN_MS = 6000;

/** @typedef {{ kind: string, id?: string, row?: string, query?: string }} Route */

export const app = {
  login: /** @type {"in" | "out" | "ended"} */ ("out"),
  /** The reason why the last code in the address did not sign in. */
  loginFault: "",
  /** The login of this page. */
  me: /** @type {{ role: string, name?: string } | null} */ (null),
  /** @type {Map<string, Session>} */
  sessions: new Map(),
  listed: false,
  connection: /** @type {"connecting" | "open" | "lost"} */ ("connecting"),
  /** False while nothing comes from the host although something should. */
  hostAnswers: true,
  /** @type {Route} */
  route: { kind: "list" },
  /** @type {Transcript | null} */
  transcript: null,
  /** @type {string | null} the reason why the open session cannot be shown */
  sessionFault: null,
  /** @type {Map<string, string>} the answers that this page has just given, by session */
  answers: new Map(),
  /** @type {{ text: string, id: number }[]} */
  messages: [],
  /** True while something between this page and the host holds streams back. */
  isHeldBack: false,
  version: 0,
};

/** @type {Set<() => void>} */
const listeners = new Set();
let scheduled = false;

/** Has the views drawn again, at most once per frame. */
export function changed() {
  if (scheduled) return;
  scheduled = true;
  const run = () => {
    scheduled = false;
    app.version += 1;
    listeners.forEach((listener) => listener());
  };
  if (document.visibilityState === "visible") requestAnimationFrame(run);
  else setTimeout(run, 200);
}

/** Calls back after each change, with or without a view. @param {() => void} listener */
export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Draws the calling component again after each change of the state. */
export function useApp() {
  const [, setVersion] = useState(0);
  useEffect(() => {
    const stop = onChange(() => setVersion(app.version));
    return () => void stop();
  }, []);
  return app;
}

/** True while the host is there, as far as the page can know. */
export const isConnected = () => app.hostAnswers && app.connection !== "lost";

/** True if this page may change things. */
export const mayControl = () => app.me === null || app.me.role !== "observer";

/** Keeps a session at its place in the list for some seconds, with the answer that was given. @param {string} session @param {string} answer */
export function showAnswer(session, answer) {
  app.answers.set(session, answer);
  changed();
  setTimeout(() => {
    if (app.answers.get(session) === answer) app.answers.delete(session);
    changed();
  }, ANSWER_SHOWN_MS);
}

/** Shows a sentence for some seconds. @param {string} text */
export function showMessage(text) {
  const id = Math.random();
  app.messages = [...app.messages.slice(-2), { text, id }];
  changed();
  setTimeout(() => {
    app.messages = app.messages.filter((message) => message.id !== id);
    changed();
  }, MESSAGE_SHOWN_MS);
}

/** Runs a call and shows its failure to the person. @template T @param {Promise<T>} promise @returns {Promise<T | undefined>} */
export async function attempt(promise) {
  try {
    return await promise;
  } catch (error) {
    showMessage(error instanceof Error ? error.message : String(error));
    return undefined;
  }
}

/** @type {{ stream: ReturnType<typeof followStream>, id: string | null } | null} */
let current = null;

/** Opens the stream for the session of the route, unless it is open already. */
export function followRoute() {
  const id = app.route.id ?? null;
  if (app.login !== "in" || (current && current.id === id)) return;
  current?.stream.close();
  if (app.transcript?.session !== id) app.transcript = id ? makeTranscript(id) : null;
  app.sessionFault = null;
  setFollowing(true);
  current = { id, stream: openStream(id) };
}

/** @param {string} id */
function makeTranscript(id) {
  const transcript = new Transcript(id, (row) => api.get(`sessions/${id}/rows/${row}`));
  transcript.onRefetched = changed;
  return transcript;
}

/** @param {string | null} id */
function openStream(id) {
  const own = app.transcript;
  return followStream({
    path: (waitMs) =>
      `sessions/stream${api.toQuery({ rows: id ?? undefined, wait: waitMs === null ? undefined : `${waitMs / 1000}s` })}`,
    headers: () => /** @type {Record<string, string>} */ (own?.position ? { "Last-Event-ID": own.position } : {}),
    onEvent: (event, eventId) => {
      if (takeListEvent(event)) return changed();
      if (own && own === app.transcript && own.apply(event, eventId)) changed();
    },
    onState: (state) => {
      app.connection = state === "connecting" && app.connection === "lost" ? "lost" : state;
      changed();
    },
    onHeldBack: (isHeldBack) => {
      app.isHeldBack = isHeldBack;
      changed();
    },
    onFatal: (error) => {
      if (error.status === 401) return endLogin();
      app.sessionFault = error.status === 404 ? "There is no such session, or it is not for you." : error.message;
      // The list goes on without the session.
      if (id) current = { id, stream: openStream(null) };
      changed();
    },
  });
}

/** @param {SessionStreamEvent} message */
function takeListEvent({ event, data }) {
  if (event === "snapshot") app.sessions = new Map(data.sessions.map((session) => [session.id, session]));
  else if (event === "session") app.sessions.set(data.id, data);
  else if (event === "forgotten") app.sessions.delete(data.id);
  else return false;
  app.listed = true;
  return true;
}

/** The host does not know this login any more. A device that was signed out keeps nothing, and tries nothing again. */
export function endLogin() {
  if (app.login === "in") forgetAll("ended");
}

/** Tries at once whether the host is there again. */
export function retryNow() {
  current?.stream.retry();
  probeHost();
}

onAnswersChange((answers) => {
  app.hostAnswers = answers;
  if (answers) current?.stream.retry();
  changed();
});
connectOutbox({ changed, say: showMessage });

/** Forgets everything of the former login: what is shown and what the browser has kept. @param {"out" | "ended"} [login] */
export function forgetAll(login = "out") {
  forgetShown();
  clearOutbox();
  storage.clearAll();
  app.login = login;
  changed();
}

/** Forgets what the former login of this page was shown. */
export function forgetShown() {
  setFollowing(false);
  current?.stream.close();
  current = null;
  Object.assign(app, {
    me: null,
    sessions: new Map(),
    listed: false,
    transcript: null,
    sessionFault: null,
    answers: new Map(),
  });
}
