// @ts-check
/** Signing in with a code, and out. */
import * as api from "./api.js";
import { dropSubscription } from "./notifications.js";
import { resumeOutbox, takeAllBack } from "./outbox.js";
import { app, changed, followRoute, forgetAll, forgetShown, showMessage } from "./store.js";

/** @import { LoggedIn } from "contract" */

/**
 * Takes a code out of the address, so that it stays neither there nor in the history.
 * @param {string} [route] what the address has instead, after `#`
 */
function takeCodeFromAddress(route = "") {
  const match = /^#c=([A-Za-z0-9-]+)$/.exec(location.hash);
  if (!match) return null;
  history.replaceState(null, "", location.pathname + location.search + route);
  return match[1];
}

/**
 * Signs in with the code of the address if there is one, now and whenever an address with a code comes into this tab. Resolves when
 * the first code has been tried.
 */
export async function followCodesInAddress() {
  addEventListener("hashchange", (event) => {
    const former = new URL(event.oldURL).hash;
    const code = takeCodeFromAddress(former.startsWith("#c=") ? "" : former);
    if (code) signInAgain(code);
  });
  const code = takeCodeFromAddress();
  if (code) app.loginFault = (await signIn(code)) ?? "";
}

/** Signs in with a code that has come into a page that is shown. @param {string} code */
async function signInAgain(code) {
  const fault = (await signIn(code)) ?? "";
  if (fault && app.login === "in") return showMessage(fault);
  app.loginFault = fault;
  changed();
}

/** Returns a name for this device that a person recognises. */
function deviceName() {
  const agent = navigator.userAgent;
  const device =
    /iPhone|iPad|Android|Macintosh|Windows|CrOS|Linux/.exec(agent)?.[0].replace("Macintosh", "Mac") ?? "device";
  const browser =
    /Edg|OPR|Firefox|Chrome|Safari/.exec(agent)?.[0].replace("Edg", "Edge").replace("OPR", "Opera") ?? "browser";
  return `${device}, ${browser}${matchMedia("(display-mode: standalone)").matches ? " (installed)" : ""}`;
}

/** Signs in. Returns the reason in words if it fails. @param {string} code @returns {Promise<string | null>} */
export async function signIn(code) {
  try {
    const response = await api.send("POST", "login", { body: { code: code.trim(), name: deviceName() } });
    // A code that is refused does not end the login that there is.
    if (!response.ok) throw await api.readRefusal(response);
    const login = /** @type {LoggedIn} */ (await response.json());
    api.setKey(login.page);
    // What the former login of this page has shown may not be for the new one.
    if (app.login === "in") {
      takeAllBack();
      forgetShown();
    }
    app.me = login;
    enter();
    return null;
  } catch (error) {
    return /** @type {Error} */ (error).message;
  }
}

/** Shows the page to a person who is signed in. */
export function enter() {
  app.login = "in";
  followRoute();
  resumeOutbox();
  changed();
  api.get("logins").then(
    (list) => {
      app.me = list.logins.find((login) => login.current) ?? app.me;
      changed();
    },
    () => {},
  );
}

/** Signs this device out and forgets what it has kept. */
export async function signOut() {
  dropSubscription();
  await api.post("logout").catch(() => {});
  history.replaceState(null, "", location.pathname);
  forgetAll();
}
