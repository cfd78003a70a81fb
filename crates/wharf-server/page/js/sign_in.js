// @ts-check
/** Signing in with a code, and out. */
import * as api from "./api.js";
import { dropSubscription } from "./notifications.js";
import { app, changed, followRoute, forgetAll } from "./store.js";

/** Takes a code out of the address, so that it stays neither there nor in the history. */
export function takeCodeFromAddress() {
  const match = /^#c=([A-Za-z0-9-]+)$/.exec(location.hash);
  if (!match) return null;
  history.replaceState(null, "", location.pathname + location.search);
  return match[1];
}

/** Returns a name for this device that a person recognises. */
function deviceName() {
  const agent = navigator.userAgent;
  const device = /iPhone|iPad|Android|Macintosh|Windows|CrOS|Linux/.exec(agent)?.[0].replace("Macintosh", "Mac") ?? "device";
  const browser = /Edg|OPR|Firefox|Chrome|Safari/.exec(agent)?.[0].replace("Edg", "Edge").replace("OPR", "Opera") ?? "browser";
  return `${device}, ${browser}${matchMedia("(display-mode: standalone)").matches ? " (installed)" : ""}`;
}

/** Signs in. Returns the reason in words if it fails. @param {string} code @returns {Promise<string | null>} */
export async function signIn(code) {
  try {
    const login = await api.post("login", { code: code.trim(), name: deviceName() });
    api.setKey(login.page);
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
  changed();
  api.get("logins").then((list) => {
    app.me = list.logins.find((/** @type {any} */ login) => login.current) ?? app.me;
    changed();
  }, () => {});
}

/** Signs this device out and forgets what it has kept. */
export async function signOut() {
  dropSubscription();
  await api.post("logout").catch(() => {});
  history.replaceState(null, "", location.pathname);
  forgetAll();
}
