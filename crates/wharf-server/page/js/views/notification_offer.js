// @ts-check
/** Offers notifications once a session has asked something or worked for long: nothing is asked of a person who has just come. */
import { useState } from "preact/hooks";
import { stateOf } from "../attention.js";
import { html } from "../html.js";
import { allowNotifications, MIN_TURN_MS } from "../notifications.js";
import * as storage from "../storage.js";
import { app } from "../store.js";

/** @import { Session } from "contract" */

/** @param {Session} session */
const hasWorkedLong = ({ attention }) =>
  attention?.state === "working" &&
  attention.why !== "starting" &&
  Date.now() - Date.parse(attention.since) >= MIN_TURN_MS;

export function NotificationOffer() {
  // The browser is asked once: its answer takes as long as drawing the list.
  const [isPossible, setPossible] = useState(
    () =>
      "Notification" in window && isSecureContext && Notification.permission === "default" && !storage.load("offered"),
  );
  const wanted =
    isPossible &&
    [...app.sessions.values()].some((session) => stateOf(session) === "needs_answer" || hasWorkedLong(session));
  if (!wanted) return "";
  const decide = async (/** @type {boolean} */ yes) => {
    storage.save("offered", "1");
    setPossible(false);
    if (yes) await allowNotifications();
  };
  return html`<div class="offer"><p>Tell you when a session needs you?</p><button onClick=${() => decide(true)}>Yes</button> <button class="quiet" onClick=${() => decide(false)}>Not now</button></div>`;
}
