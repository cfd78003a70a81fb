// @ts-check
/** The card of a failure: what is wrong, what helps, and the way to try again. */
import { useState } from "preact/hooks";
import * as api from "../api.js";
import { failureOf, loginCommand } from "../failures.js";
import { html } from "../html.js";
import { sendLater } from "../outbox.js";
import { go, sessionLink } from "../router.js";
import { app, attempt, mayControl, showMessage, useApp } from "../store.js";
import { plainText } from "../text.js";
import { compareRows } from "../transcript.js";
import { PlainText } from "./parts.js";

/** @type {Record<string, string>} */
const HEADINGS = { limit: "The agent has reached a limit", start: "The agent did not start", crash: "The agent ended", error: "The turn failed" };

/** @param {{ row: any, transcript: import("../transcript.js").Transcript }} props */
export function FailureCard({ row, transcript }) {
  useApp();
  const [busy, setBusy] = useState(false);
  const info = transcript.state?.session ?? app.sessions.get(transcript.session);
  const adapter = info?.adapterSlug ?? "";
  const kind = failureOf(row) ?? "error";
  const isLast = !transcript.rows.some((other) => ["prompt", "turn_end"].includes(other.kind) && other !== row && compareRows(other.id, row.id) > 0);
  const retry = async () => {
    setBusy(true);
    await attempt(tryAgain(row, transcript, info));
    setBusy(false);
  };
  return html`<section class=${`failure failure-${kind}`} aria-label="Failure">
    <h4>${kind === "login" ? `${adapter} is not signed in` : HEADINGS[kind]}</h4>
    ${kind === "login" ? html`<p>On the machine of the host, run <code>${loginCommand(adapter)}</code>, then try again.</p>` : html`<p>${plainText(row.message ?? row.text ?? "")}</p>`}
    ${row.stderr ? html`<pre class="output" tabindex="0"><${PlainText} text=${row.stderr} /></pre>` : ""}
    ${row.next?.requeued ? html`<p class="faint">The prompt is in the queue again.</p>` : ""}
    <div class="failure-buttons">${isLast && mayControl() && !row.next?.requeued ? html`<button class="again" disabled=${busy} onClick=${retry}>Try again</button>` : ""}
      ${kind === "login" ? html`<button class="quiet" onClick=${() => copyCommand(loginCommand(adapter))}>Copy the command</button>` : ""}</div>
  </section>`;
}

/** @param {string} command */
async function copyCommand(command) {
  await navigator.clipboard?.writeText(command).catch(() => {});
  showMessage("The command is in the clipboard.");
}

/**
 * Sends the prompt of a turn again: to the session, or to a new one if its agent cannot come back.
 * @param {any} row @param {import("../transcript.js").Transcript} transcript @param {any} info
 */
async function tryAgain(row, transcript, info) {
  const session = transcript.session;
  const known = transcript.rows.findLast((one) => one.kind === "prompt" && compareRows(one.id, row.id) < 0);
  const prompt = known ? await readPrompt(session, known.id) : { text: "", images: [], files: [] };
  const isOver = !["starting", "running"].includes(info?.status) && !info?.resumable;
  if (!isOver) {
    if (known) sendLater({ session, ...prompt });
    else await api.post(`sessions/${session}/resume`);
    return;
  }
  const isPlain = !prompt.images.length && !prompt.files.length;
  const body = { adapter: info.adapterSlug, cwd: info.cwd, ...(info.label ? { label: info.label } : {}), ...(isPlain && prompt.text.trim() ? { prompt: prompt.text } : {}) };
  // Two taps start one session.
  const headers = { "Idempotency-Key": `again-${session}-${row.id}`, ...(isPlain ? { Prefer: "respond-async" } : {}) };
  const made = await api.post("sessions/agent", body, headers);
  if (!isPlain) sendLater({ session: made.id, ...prompt });
  // The new session has all that was in this one.
  if (row.reason === "start_failed") await api.call("PATCH", `sessions/${session}`, { body: { archived: true } }).catch(() => {});
  go(sessionLink(made.id));
}

/** Returns the content of a prompt, as it was written. @param {string} session @param {string} id */
async function readPrompt(session, id) {
  const row = await api.get(`sessions/${session}/rows/${id}`);
  const images = [];
  for (const part of row.parts.filter((/** @type {any} */ one) => one.type === "blob" && one.media === "image")) {
    const response = await api.send("GET", `sessions/${session}/blobs/${part.blob}`);
    if (!response.ok) throw await api.toError(response);
    const blob = await response.blob();
    images.push({ blob, name: part.name ?? "image.png", url: URL.createObjectURL(blob) });
  }
  const files = row.parts.filter((/** @type {any} */ one) => one.type === "file" && one.uri?.startsWith("file://"));
  const text = row.parts.filter((/** @type {any} */ one) => one.type === "text").map((/** @type {any} */ one) => one.text).join("\n");
  return { text, images, files: files.map((/** @type {any} */ one) => ({ path: one.name, absolute: decodeURI(one.uri.slice("file://".length)) })) };
}
