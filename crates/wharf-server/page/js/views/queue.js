// @ts-check
/** The prompts that wait: each can be changed, moved, sent at once or taken out. */
import { useState } from "preact/hooks";
import * as api from "../api.js";
import { plural } from "../format.js";
import { html } from "../html.js";
import { attempt, mayControl } from "../store.js";
import { plainText } from "../text.js";
import { Icon } from "./icon.js";

/** @import { QueueChange, Waiting } from "contract" */
/** @import { EventOf } from "../html.js" */
/** @import { Transcript } from "../transcript.js" */

/** @param {{ transcript: Transcript }} props */
export function Queue({ transcript }) {
  const [open, setOpen] = useState(true);
  const queue = transcript.state?.queue ?? [];
  if (!queue.length) return "";
  return html`<section class="queue" aria-label="Queue">
    <button class="queue-head" aria-expanded=${open} onClick=${() => setOpen(!open)}>Queue <span class="faint">${plural(queue.length, "prompt")}</span></button>
    ${open ? html`<ol>${queue.map((entry, index) => html`<${Entry} key=${entry.promptId} entry=${entry} index=${index} count=${queue.length} session=${transcript.session} />`)}</ol>` : ""}
  </section>`;
}

/** @param {{ entry: Waiting, index: number, count: number, session: string }} props */
function Entry({ entry, index, count, session }) {
  const [draft, setDraft] = useState(/** @type {string | null} */ (null));
  const path = /** @type {const} */ (`sessions/${session}/queue/${entry.promptId}`);
  const change = (/** @type {QueueChange} */ body) => attempt(api.call("PATCH", path, { body }));
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (draft?.trim() && draft !== entry.text && !(await change({ prompt: draft, keepAttachments: true }))) return;
    setDraft(null);
  };
  const edit = async () => {
    const whole = await attempt(readWholeText(session, entry));
    if (typeof whole === "string") setDraft(whole);
  };
  if (draft !== null) {
    return html`<li><form class="queue-edit" onSubmit=${save}><textarea aria-label="Waiting prompt" rows="2" value=${draft} onInput=${(/** @type {EventOf<HTMLTextAreaElement>} */ event) => setDraft(event.target.value)}></textarea>
      <button type="submit">Save</button><button type="button" onClick=${() => setDraft(null)}>Cancel</button></form></li>`;
  }
  const shown = [entry.text, ...(entry.attachments ?? []).map((name) => `[${name}]`)].filter(Boolean).join(" ");
  const name = plainText(shown).slice(0, 60);
  return html`<li><span class="queue-text">${plainText(shown)}</span>${entry.sender && entry.sender !== "Wharf page" ? html`<span class="faint"> · ${plainText(entry.sender)}</span>` : ""}
    ${
      mayControl()
        ? html`<span class="queue-buttons">
      <button class="icon-button" title="Edit" aria-label=${`Edit: ${name}`} onClick=${edit}><${Icon} name="edit" /></button>
      <button class="icon-button" title="Up" aria-label=${`Move up: ${name}`} disabled=${index === 0} onClick=${() => change({ position: index - 1 })}><${Icon} name="up" /></button>
      <button class="icon-button" title="Down" aria-label=${`Move down: ${name}`} disabled=${index === count - 1} onClick=${() => change({ position: index + 1 })}><${Icon} name="down" /></button>
      <button class="icon-button" title="Send now: interrupts the running turn" aria-label=${`Send now: ${name}`} onClick=${() => attempt(api.post(`${path}/send`))}><${Icon} name="now" /></button>
      <button class="icon-button" title="Remove" aria-label=${`Remove: ${name}`} onClick=${() => attempt(api.call("DELETE", path))}><${Icon} name="close" /></button></span>`
        : ""
    }</li>`;
}

/**
 * Returns the whole text of a waiting prompt, which the list may show shortened.
 * @param {string} session @param {Waiting} entry
 */
export async function readWholeText(session, entry) {
  return entry.shortened ? (await api.get(`sessions/${session}/queue/${entry.promptId}`)).text : entry.text;
}
