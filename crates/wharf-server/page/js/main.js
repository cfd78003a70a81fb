// @ts-check
/** Starts the page: signs in with the code of the address if there is one, then shows the sessions. */
import { render } from "preact";
import * as api from "./api.js";
import { html } from "./html.js";
import { registerWorker, startNotifications } from "./notifications.js";
import { startRouter } from "./router.js";
import { enter, followCodesInAddress } from "./sign_in.js";
import { app, endLogin } from "./store.js";
import { Shell } from "./views/shell.js";

const root = /** @type {HTMLElement} */ (document.getElementById("app"));
api.onSignedOut(endLogin);
// The code leaves the address before the router reads it.
const codesTried = followCodesInAddress();
startRouter();
await codesTried;
if (app.login !== "in" && (api.hasKey() || document.documentElement.dataset.auth === "none")) enter();
root.replaceChildren();
render(html`<${Shell} />`, root);
startNotifications();
registerWorker();
navigator.serviceWorker?.addEventListener("message", (event) => {
  if (typeof event.data?.target === "string" && event.data.target.startsWith("#/")) location.hash = event.data.target;
});
