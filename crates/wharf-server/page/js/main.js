// @ts-check
/** Starts the page: signs in with the code of the address if there is one, then shows the sessions. */
import { render } from "preact";
import * as api from "./api.js";
import { html } from "./html.js";
import { registerWorker, startNotifications } from "./notifications.js";
import { startRouter } from "./router.js";
import { enter, signIn, takeCodeFromAddress } from "./sign_in.js";
import { endLogin } from "./store.js";
import { Shell } from "./views/shell.js";

const root = /** @type {HTMLElement} */ (document.getElementById("app"));
const code = takeCodeFromAddress();
let fault = "";
api.onSignedOut(endLogin);
startRouter();
if (code) fault = (await signIn(code)) ?? "";
if (!code || (fault && api.hasKey())) {
  if (api.hasKey() || document.documentElement.dataset.auth === "none") enter();
}
root.replaceChildren();
render(html`<${Shell} fault=${fault} />`, root);
startNotifications();
registerWorker();
navigator.serviceWorker?.addEventListener("message", (event) => {
  if (typeof event.data?.target === "string" && event.data.target.startsWith("#/")) location.hash = event.data.target;
});
