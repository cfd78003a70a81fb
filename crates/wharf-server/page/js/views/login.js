// @ts-check
/** The sign-in screen: a field for a code. An installed page has a storage of its own, so that the code can be typed. */
import { useEffect, useState } from "preact/hooks";
import { html } from "../html.js";
import { signIn } from "../sign_in.js";
import { BRAND_MARK } from "./icon.js";

/** @import { EventOf } from "../html.js" */

/** @param {{ fault: string, ended: boolean }} props */
export function Login({ fault, ended }) {
  const [code, setCode] = useState("");
  const [problem, setProblem] = useState(fault);
  const [busy, setBusy] = useState(false);
  useEffect(() => setProblem(fault), [fault]);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    setProblem((await signIn(code)) ?? "");
    setBusy(false);
  };
  return html`<main class="login"><div class="login-card"><h1><img class="brand-mark" src=${BRAND_MARK} alt="" />Wharf</h1>
    <p>${ended ? "This device was signed out." : "Your coding agents, from a browser and a phone."}</p>
    <form onSubmit=${submit}><label for="code">Code</label>
      <input id="code" class="code-field" autocomplete="one-time-code" autocapitalize="characters" spellcheck=${false} autofocus placeholder="K7Q2-9FXM" value=${code} onInput=${(/** @type {EventOf<HTMLInputElement>} */ event) => setCode(event.target.value)} />
      <button type="submit" class="send" disabled=${busy || !code.trim()}>Sign in</button></form>
    ${problem ? html`<p class="warning" role="alert">${problem}</p>` : ""}
    <p class="faint">On the machine of the host, run <code>wharf web</code>; for a phone, <code>wharf web --phone</code>.</p></div></main>`;
}
