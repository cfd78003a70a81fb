// @ts-check
/** Telling a person who looks elsewhere: the title and the icon's badge always, a system notification if it was allowed. */
import * as api from "./api.js";
import { NEEDS_YOU, needsPerson, stateOf } from "./attention.js";
import { routeUrl } from "./base.js";
import { placeOf, titleOf } from "./format.js";
import { app, onChange } from "./store.js";
import { sessionLink } from "./router.js";
import { plainText } from "./text.js";
import * as storage from "./storage.js";

/** @import { PushSubscriptionArgs, Session } from "contract" */

/**
 * The part of trusted types that is used here; not every browser has them.
 * @typedef {{ createScriptURL: (text: string) => string }} ScriptPolicy
 * @typedef {{ createPolicy: (name: string, rules: ScriptPolicy) => ScriptPolicy }} TrustedTypes
 */

const CONTENT_CHARS = 140;
/** A turn that took less is not worth a notification. */
export const MIN_TURN_MS = 20_000;
/** One notification per session in this time, questions excepted. */
const MIN_GAP_MS = 60_000;

/** @type {Map<string, { state: string, row: string | null, workingSince: number, toldAt: number }>} */
const known = new Map();
let primed = false;

/** True if this page may show system notifications. */
export const isAllowed = () =>
  "Notification" in window && Notification.permission === "granted" && storage.load("notify") !== "off";

/** Returns the registration of the service worker, if the browser has one here. */
export async function registerWorker() {
  if (!("serviceWorker" in navigator) || !isSecureContext) return null;
  const address = routeUrl("sw.js");
  // The browser takes the address of a script only from a policy that the page has declared.
  const { trustedTypes } = /** @type {Window & { trustedTypes?: TrustedTypes }} */ (window);
  const policy = trustedTypes?.createPolicy("wharf-worker", {
    createScriptURL: (text) => {
      if (text !== address) throw new TypeError("not the page's own worker");
      return text;
    },
  });
  return navigator.serviceWorker.register(policy ? policy.createScriptURL(address) : address).catch(() => null);
}

/** Follows the sessions and tells what is new. */
export function startNotifications() {
  onChange(() => {
    if (!app.listed) return;
    const waiting = [...app.sessions.values()].filter(needsPerson).length;
    const shown = app.sessions.get(app.route.id ?? "");
    const title = shown ? `${plainText(titleOf(shown))} · Wharf` : "Wharf";
    const text = waiting ? `(${waiting}) ${title}` : title;
    if (document.title !== text) {
      document.title = text;
      (waiting ? navigator.setAppBadge?.(waiting) : navigator.clearAppBadge?.())?.catch?.(() => {});
    }
    for (const session of app.sessions.values()) noteSession(session);
    primed = true;
  });
}

/** @param {Session} session */
function noteSession(session) {
  const [state, row] = [stateOf(session), session.attention?.row ?? null];
  const before = known.get(session.id);
  const workingSince =
    state === "working"
      ? before?.state === "working"
        ? before.workingSince
        : Date.now()
      : (before?.workingSince ?? 0);
  const entry = { state, row, workingSince, toldAt: before?.toldAt ?? 0 };
  known.set(session.id, entry);
  if (!primed || !before || (before.state === state && before.row === row)) return;
  // An earlier notification does not hold any more, also if the next state is told to nobody.
  const closed = closeNotification(session.id);
  if (!NEEDS_YOU.includes(state)) return;
  if (session.attention?.muted || (session.archived && state !== "needs_answer")) return;
  if (state === "finished" && Date.now() - workingSince < MIN_TURN_MS) return;
  if (state !== "needs_answer" && Date.now() - entry.toldAt < MIN_GAP_MS) return;
  // A person who looks at this page needs no system notification.
  if (!isAllowed() || (document.hasFocus() && document.visibilityState === "visible")) return;
  entry.toldAt = Date.now();
  closed.then(
    () => showNotification(session),
    () => showNotification(session),
  );
}

/** @type {Record<string, string>} */
const REASONS = { needs_answer: "asks", failed: "failed", finished: "finished" };

/** @param {Session} session */
async function showNotification(session) {
  const registration = await navigator.serviceWorker?.getRegistration(routeUrl(""));
  const body =
    `${REASONS[stateOf(session)]}${session.attention?.text ? `: ${plainText(session.attention.text)}` : ""}`.slice(
      0,
      CONTENT_CHARS,
    );
  const target = sessionLink(session.id, session.attention?.row ?? undefined);
  const options = {
    body,
    tag: session.id,
    icon: new URL("../icons/icon-192.png", import.meta.url).href,
    data: { target },
  };
  const title = `${placeOf(session)} · ${plainText(titleOf(session))}`;
  if (registration?.active) return registration.showNotification(title, options).catch(() => {});
  try {
    const shown = new Notification(title, options);
    shown.onclick = () => {
      focus();
      location.hash = target;
    };
  } catch {
    // Some browsers show notifications only through a service worker.
  }
}

/** @param {string} session */
async function closeNotification(session) {
  const registration = await navigator.serviceWorker?.getRegistration(routeUrl(""));
  for (const shown of (await registration?.getNotifications({ tag: session })) ?? []) shown.close();
}

/** Asks the browser for leave, after a click. Returns the outcome in a word. */
export async function allowNotifications() {
  if (!("Notification" in window)) return "unsupported";
  storage.save("notify", null);
  const outcome = await Notification.requestPermission();
  if (outcome === "granted") await subscribePush().catch(() => null);
  return outcome;
}

/** Subscribes this browser to the host's push messages. Returns false where that is not possible. */
export async function subscribePush() {
  const registration = await navigator.serviceWorker?.getRegistration(routeUrl(""));
  if (!registration?.pushManager) return false;
  const { publicKey } = await api.get("push");
  const subscription = await registration.pushManager.subscribe({
    userVisibleOnly: true,
    applicationServerKey: publicKey,
  });
  await api.call("PUT", "push", { body: /** @type {PushSubscriptionArgs} */ (subscription.toJSON()) });
  return true;
}

/** Ends the subscription, at the host and in the browser. */
export async function unsubscribePush() {
  storage.save("notify", "off");
  dropSubscription();
  await api.call("DELETE", "push").catch(() => {});
}

/** Ends the subscription in the browser. It is not waited for: a browser without its push service may never answer. */
export async function dropSubscription() {
  try {
    const registration = await navigator.serviceWorker?.getRegistration(routeUrl(""));
    await (await registration?.pushManager?.getSubscription())?.unsubscribe();
  } catch {
    // The host has forgotten the subscription, so that nothing comes by it.
  }
}
