// @ts-check
/** Notifications of this device: what is possible here, switching them on and off, a test. */
import { useEffect, useState } from "preact/hooks";
import * as api from "../api.js";
import { age } from "../format.js";
import { html } from "../html.js";
import { allowNotifications, isAllowed, subscribePush, unsubscribePush } from "../notifications.js";
import { attempt, showMessage } from "../store.js";

/** @import { PushState } from "contract" */

export function NotificationSettings() {
  const [push, setPush] = useState(/** @type {PushState | null} */ (null));
  const [, redraw] = useState(0);
  const load = () => api.get("push").then(setPush, () => setPush(null));
  useEffect(() => void load(), []);
  const possible = "Notification" in window && isSecureContext;
  const switchOn = async () => {
    const outcome = await allowNotifications();
    if (outcome === "denied")
      showMessage("The browser does not allow notifications of this page. Its settings for this site can change that.");
    await load();
    redraw((count) => count + 1);
  };
  const switchOff = async () => {
    await unsubscribePush();
    await load();
    redraw((count) => count + 1);
  };
  const test = async () => {
    const outcome = await attempt(api.post("push/test"));
    if (outcome) showMessage(outcome.ok ? "The push service took the test." : `The test failed: ${outcome.detail}`);
    load();
  };
  return html`<h2>Notifications</h2>
    ${!isSecureContext ? html`<p class="warning">This page came over plain HTTP from another machine, and browsers allow no notifications there. Use TLS or a tunnel, or <code>[notify]</code> in the configuration of the host.</p>` : ""}
    ${possible ? html`<p>${isAllowed() ? html`On. <button onClick=${switchOff}>Switch off</button>` : html`<button onClick=${switchOn}>Tell me when a session needs me</button>`}</p>` : isSecureContext ? html`<p class="faint">This browser shows no notifications of pages. On an iPhone, install the page first: Share, Add to Home Screen.</p>` : ""}
    ${isAllowed() && push ? html`<p class="faint">${push.subscribed ? "Also while the page is closed, by the push service of this browser." : html`Only while the page is open. <button class="quiet" onClick=${() => attempt(subscribePush()).then(load)}>Also while it is closed</button>`}</p>` : ""}
    ${
      push?.subscribed
        ? html`<p><button onClick=${test}>Send a test</button> ${push.lastDelivery ? html`<span class="faint">Last: ${push.lastDelivery.ok ? "delivered" : push.lastDelivery.detail}, ${age(push.lastDelivery.at)}</span>` : ""}</p>
      <p class="faint">Push messages are encrypted for this device. The push service sees when one is sent, not what it says.</p>`
        : ""
    }`;
}
