// @ts-check
/** The prompts that the host has not taken yet: each stands below the transcript from the moment in which it is sent. */
import { plural } from "../format.js";
import { html } from "../html.js";
import { listOutgoing, takeBack } from "../outbox.js";
import { isConnected } from "../store.js";
import { PlainText } from "./parts.js";

/** @param {{ session: string }} props */
export function Outbox({ session }) {
  const prompts = listOutgoing(session);
  if (!prompts.length) return "";
  return html`<section class="outbox" aria-label="On the way">${prompts.map((prompt) => html`<div class="prompt outgoing" key=${prompt.key}>
    <h3 class="row-head"><span>You</span> <span class="faint" role="status">· ${isConnected() ? "sending…" : "sending… the host does not answer"}</span>
      ${isConnected() ? "" : html`<button class="quiet take-back" onClick=${() => takeBack(prompt)}>Take back</button>`}</h3>
    <${PlainText} text=${prompt.text} />${prompt.images.length ? html`<p class="faint">${plural(prompt.images.length, "image")}</p>` : ""}</div>`)}</section>`;
}
