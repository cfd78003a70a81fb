// @ts-check
/** The devices that are signed in, and the notifications of this one. */
import { useEffect, useState } from "preact/hooks";
import * as api from "../api.js";
import { age, fullDate } from "../format.js";
import { html } from "../html.js";
import { signOut } from "../sign_in.js";
import { attempt, mayControl } from "../store.js";
import { plainText } from "../text.js";
import { NotificationSettings } from "./notification_settings.js";

/** @import { Login } from "contract" */
/** @import { EventOf } from "../html.js" */

export function Devices() {
  const [logins, setLogins] = useState(/** @type {Login[] | null} */ (null));
  const load = () => attempt(api.get("logins")).then((list) => list && setLogins(list.logins));
  useEffect(() => void load(), []);
  const end = async (/** @type {string} */ id) => {
    if (await attempt(api.call("DELETE", `logins/${id}`))) load();
  };
  const others = (logins ?? []).filter((login) => !login.current);
  const isLogin = (logins ?? []).some((login) => login.current);
  return html`<div class="page"><h1>Devices</h1>
    ${!logins ? html`<p class="faint">Loading…</p>` : html`<ul class="devices">${logins.map((login) => html`<${Device} key=${login.id} login=${login} onEnd=${() => end(login.id)} onChanged=${load} />`)}</ul>`}
    ${isLogin ? "" : html`<p class="faint">This host needs no sign-in.</p>`}
    <p class="ask-options">${
      others.length > 0 && mayControl()
        ? html`<button onClick=${async () => {
            for (const login of others) await attempt(api.call("DELETE", `logins/${login.id}`));
            load();
          }}>Sign out all others</button>`
        : ""
    }
      ${isLogin ? html`<button class="danger" onClick=${signOut}>Sign this device out</button>` : ""}</p>
    <h2>Add a device</h2><p>On the machine of the host, run <code>wharf web --phone</code>. It shows a QR code, and a code to type into an installed page.</p>
    <p class="faint">An installed page belongs to its address: under another name of the host, it has to be installed again.</p>
    <${NotificationSettings} />
  </div>`;
}

/** @param {{ login: Login, onEnd: () => void, onChanged: () => void }} props */
function Device({ login, onEnd, onChanged }) {
  const [name, setName] = useState(/** @type {string | null} */ (null));
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (name?.trim() && (await attempt(api.call("PATCH", `logins/${login.id}`, { body: { name: name.trim() } }))))
      onChanged();
    setName(null);
  };
  return html`<li class="device">${
    name === null
      ? html`<div><strong>${plainText(login.name)}</strong>${login.current ? html` <span class="tag">this device</span>` : ""}<br />
        <span class="faint">${login.role}${login.workspace ? ` of ${login.workspace}` : ""} · ${login.lastSeenAt ? html`<time datetime=${login.lastSeenAt} title=${fullDate(login.lastSeenAt)}>seen ${age(login.lastSeenAt)}${age(login.lastSeenAt) === "now" ? "" : " ago"}</time>` : `since ${login.createdAt.slice(0, 10)}`}${login.expiresAt ? ` · until ${login.expiresAt.slice(0, 10)}` : ""}</span></div>
      ${mayControl() ? html`<button onClick=${() => setName(login.name)}>Rename</button>${login.current ? "" : html`<button class="danger" onClick=${onEnd}>Sign out</button>`}` : ""}`
      : html`<form onSubmit=${save}><input aria-label="Name of the device" value=${name} maxlength="200" onInput=${(/** @type {EventOf<HTMLInputElement>} */ event) => setName(event.target.value)} /><button type="submit">Save</button></form>`
  }</li>`;
}
