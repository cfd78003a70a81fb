// @ts-check
/** The host, its version and the licences of the libraries that the page uses. */
import { useEffect, useState } from "preact/hooks";
import * as api from "../api.js";
import { html } from "../html.js";
import * as storage from "../storage.js";

/** @import { Described } from "contract" */
/** @import { EventOf } from "../html.js" */

const LIBRARIES = [
  ["Preact 11.2.0", "MIT", "preact.txt"],
  ["htm 3.1.1", "Apache-2.0", "htm.txt"],
  ["streaming-markdown 0.2.15", "MIT", "streaming-markdown.txt"],
  ["highlight.js 11.12.0", "BSD-3-Clause", "highlight.js.txt"],
];

export function About() {
  const [host, setHost] = useState(/** @type {Described | null} */ (null));
  const [fault, setFault] = useState("");
  useEffect(() => {
    api.get("host").then(setHost, (error) => setFault(error.message));
  }, []);
  const licence = (/** @type {string} */ name) => new URL(`../../vendor/licences/${name}`, import.meta.url).href;
  return html`<div class="page"><h1>About</h1>
    ${host ? html`<dl><dt>Wharf</dt><dd>${host.version}</dd><dt>Sessions</dt><dd>${host.sessions.live} live, ${host.sessions.total} in all</dd><dt>Address</dt><dd>${host.url}</dd><dt>State</dt><dd>${host.stateDir}</dd></dl>` : html`<p class="faint">${fault || "Loading…"}</p>`}
    ${isSecureContext ? "" : html`<p class="warning">This page came over plain HTTP from another machine. Browsers then allow no notifications, no installation and no clipboard. Use TLS, or a tunnel.</p>`}
    <h2>Keys</h2><dl class="keys"><dt><kbd>j</kbd> <kbd>k</kbd></dt><dd>next and previous session</dd><dt><kbd>/</kbd></dt><dd>search</dd><dt><kbd>n</kbd></dt><dd>new session</dd><dt><kbd>i</kbd></dt><dd>write to the agent</dd>
      <dt><kbd>Ctrl K</kbd></dt><dd>go to a session or a command</dd><dt><kbd>Ctrl F</kbd></dt><dd>find in the session; a second time: the browser's own</dd><dt><kbd>Esc</kbd></dt><dd>leave the field, close</dd></dl>
    <p><label class="check"><input type="checkbox" checked=${storage.load("keys") !== "off"} onChange=${(/** @type {EventOf<HTMLInputElement>} */ event) => storage.save("keys", event.target.checked ? null : "off")} /> Single letters are keys</label></p>
    <h2>Libraries</h2><ul>${LIBRARIES.map(([name, kind, file]) => html`<li>${name}, <a href=${licence(file)} target="_blank" rel="noopener">${kind}</a></li>`)}</ul>
  </div>`;
}
