// @ts-check
/** The prompts that the host has not taken yet: each stands below the transcript from the moment in which it is sent. */
import { useEffect, useState } from "preact/hooks";
import { plural } from "../format.js";
import { html } from "../html.js";
import { listOutgoing, takeBack } from "../outbox.js";
import { isConnected } from "../store.js";
import { PlainText } from "./parts.js";

/** A prompt that is on its way for so long can be taken back: an upload may be slow, or a proxy answer for the host. */
const SLOW_MS = 5000;

/** @param {{ session: string }} props */
export function Outbox({ session }) {
  const prompts = listOutgoing(session);
  const [now, setNow] = useState(Date.now());
  const isSlow = (/** @type {{ at: number }} */ prompt) => now - prompt.at >= SLOW_MS;
  const next = Math.min(...prompts.filter((prompt) => !isSlow(prompt)).map((prompt) => prompt.at + SLOW_MS));
  useEffect(() => {
    if (next === Infinity) return undefined;
    const timer = setTimeout(() => setNow(Date.now()), Math.max(0, next - Date.now()));
    return () => clearTimeout(timer);
  }, [next, now]);
  if (!prompts.length) return "";
  return html`<section class="outbox" aria-label="On the way">${prompts.map(
    (prompt) => html`<div class="prompt outgoing" key=${prompt.key}>
    <h3 class="row-head"><span>You</span> <span class="faint" role="status">· ${isConnected() ? "sending…" : "sending… the host does not answer"}</span>
      ${isConnected() && !isSlow(prompt) ? "" : html`<button class="quiet take-back" onClick=${() => takeBack(prompt)}>Take back</button>`}</h3>
    <${PlainText} text=${prompt.text} />${prompt.images.length ? html`<p class="faint">${plural(prompt.images.length, isPictures(prompt.images) ? "image" : "file")}</p>` : ""}</div>`,
  )}</section>`;
}

/** @param {{ blob: Blob }[]} files */
const isPictures = (files) => files.every(({ blob }) => blob.type.startsWith("image/"));
