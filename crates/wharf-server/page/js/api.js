// @ts-check
/** Calls of the host's routes. The cookie is one half of the login; the key that this page keeps is the other. */
import { routeUrl } from "./base.js";
import { noteHeard, noteSent } from "./host_watch.js";
import * as storage from "./storage.js";

/** @import { Answer, Body, Problem, Query } from "contract" */

const KEY = "key";
const CLIENT = "client";
/** A request without an answer for so long has failed. */
const TIMEOUT_MS = 60_000;

/** A refusal of the host, or a request that did not reach it. */
export class CallError extends Error {
  /**
   * @param {number} status 0 without an answer @param {string} code @param {string} detail
   * @param {Partial<Problem>} [problem]
   */
  constructor(status, code, detail, problem) {
    super(detail);
    this.status = status;
    this.code = code;
    this.problem = problem ?? {};
  }
}

/** @type {Set<() => void>} */
const signedOutListeners = new Set();

/** @param {() => void} callback called when the host no longer knows this login */
export function onSignedOut(callback) {
  signedOutListeners.add(callback);
}

export function hasKey() {
  return storage.load(KEY) !== null;
}

/** @param {string | null} key */
export function setKey(key) {
  storage.save(KEY, key);
}

/** Returns the id by which the host knows this browser as one client. */
function clientId() {
  const known = storage.load(CLIENT);
  if (known) return known;
  const made = `page_${randomText()}`;
  storage.save(CLIENT, made);
  return made;
}

/** Returns a random text for ids and idempotency keys. */
export function randomText() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** @returns {Record<string, string>} */
export function authHeaders() {
  const key = storage.load(KEY);
  return { "X-Wharf-Client": "Wharf page", "Wharf-Client-Id": clientId(), ...(key ? { "Wharf-Page": key } : {}) };
}

/**
 * The parts of a request besides its method and path.
 * @typedef {{ body?: unknown, raw?: Blob, headers?: Record<string, string>, signal?: AbortSignal,
 *   mayWait?: boolean }} SendOptions `mayWait` is true for a request that the host answers when there is news
 */

/**
 * Sends a request and returns the response, whatever its status.
 * @param {string} method @param {string} path @param {SendOptions} [options]
 */
export async function send(method, path, options = {}) {
  const headers = { ...authHeaders(), ...options.headers };
  const body = options.raw ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  // The answer of a stream begins at once. Of polls that wait the silence of 25 seconds tells.
  const noteEnd = options.mayWait ? () => {} : noteSent();
  try {
    const response = await fetch(routeUrl(path), {
      method,
      headers,
      body,
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      signal: options.signal ?? AbortSignal.timeout(TIMEOUT_MS),
    });
    // A proxy says so itself if it finds no host.
    if (![502, 504].includes(response.status)) noteHeard();
    return response;
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new CallError(0, "unreachable", "The host does not answer.");
  } finally {
    noteEnd();
  }
}

/**
 * Sends a request and returns the JSON of its answer. The method and the path say of what type this and the body are.
 * @template {string} M @template {string} P
 * @param {M} method @param {P} path @param {SendOptions & { body?: NoInfer<Body<`${M} ${P}`>> }} [options]
 * @returns {Promise<Answer<`${M} ${P}`>>}
 */
export async function call(method, path, options) {
  const response = await send(method, path, options);
  if (response.ok) return response.json();
  throw await toError(response);
}

/** Returns the refusal of a request of this login, which may be that the login has ended. @param {Response} response */
export async function toError(response) {
  if (response.status === 401 && hasKey()) signedOutListeners.forEach((callback) => callback());
  return readRefusal(response);
}

/** @param {Response} response */
export async function readRefusal(response) {
  const problem = await response.json().catch(() => ({}));
  const detail = problem.detail ?? `The host answered ${response.status}.`;
  return new CallError(
    response.status,
    problem.code ?? "unknown",
    detail.charAt(0).toUpperCase() + detail.slice(1),
    problem,
  );
}

/** @template {string} P @param {P} path @param {Record<string, unknown>} [query] */
export const get = (path, query) => call("GET", /** @type {P} */ (path + toQuery(query)));
/** @template {string} P @param {P} path @param {Body<`POST ${P}`>} [body] @param {Record<string, string>} [headers] */
export const post = (path, body, headers) =>
  call("POST", path, { body: /** @type {Body<`POST ${P}`>} */ (body ?? {}), headers });

/** @param {Record<string, unknown>} [query] @returns {Query} */
export function toQuery(query) {
  const pairs = Object.entries(query ?? {}).filter(
    ([, value]) => value !== undefined && value !== null && value !== "",
  );
  return pairs.length ? `?${new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]))}` : "";
}
