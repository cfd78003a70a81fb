// @ts-check
/** The card of a failure: what is wrong, what helps, and the way to try again. */
import { useState } from "preact/hooks";
import * as api from "../api.js";
import { failureOf, loginCommand, namesLogin } from "../failures.js";
import { baseName } from "../format.js";
import { html } from "../html.js";
import { sendLater } from "../outbox.js";
import { go, sessionLink } from "../router.js";
import { app, attempt, mayControl, useApp } from "../store.js";
import { plainText } from "../text.js";
import { compareRows } from "../transcript.js";
import { copyText, PlainText } from "./parts.js";

/** @import { Row, RowBlobPart, RowCut, RowTextPage, Session } from "contract" */
/** @import { NamedFile, OutgoingPrompt } from "../outbox.js" */
/** @import { RowOf, Transcript } from "../transcript.js" */

/** @type {Record<string, string>} */
const HEADINGS = {
  limit: "The agent has reached a limit",
  start: "The agent did not start",
  crash: "The agent ended",
  error: "The turn failed",
};

/** @param {{ row: RowOf<"turn_end" | "notice">, transcript: Transcript }} props */
export function FailureCard({ row, transcript }) {
  useApp();
  const [busy, setBusy] = useState(false);
  const info = transcript.state?.session ?? app.sessions.get(transcript.session);
  const adapter = info?.adapterSlug ?? "";
  const kind = failureOf(row) ?? "error";
  const isLast = !transcript.rows.some(
    (other) => ["prompt", "turn_end"].includes(other.kind) && other !== row && compareRows(other.id, row.id) > 0,
  );
  const retry = async () => {
    setBusy(true);
    await attempt(tryAgain(row, transcript, info));
    setBusy(false);
  };
  const end = row.kind === "turn_end" ? row : null;
  const text = row.kind === "notice" ? row.text : (row.message ?? "");
  // Other failures may have the code of a missing login: their words say more.
  const isSure = kind === "login" && namesLogin(text);
  const heading = kind === "login" ? `${adapter} ${isSure ? "is not" : "may not be"} signed in` : HEADINGS[kind];
  return html`<section class=${`failure failure-${kind}`} aria-label="Failure">
    <h4>${heading}</h4>
    ${isSure || !text ? "" : html`<p>${plainText(text)}</p>`}
    ${kind === "login" ? html`<p>${isSure ? "On" : "If it wants a login: on"} the machine of the host, run <code>${loginCommand(adapter)}</code>, then try again.</p>` : ""}
    ${end?.stderr ? html`<pre class="output" tabindex="0"><${PlainText} text=${end.stderr} /></pre>` : ""}
    ${end?.next?.requeued ? html`<p class="faint">The prompt is in the queue again.</p>` : ""}
    <div class="failure-buttons">${isLast && mayControl() && !end?.next?.requeued ? html`<button class="again" disabled=${busy} onClick=${retry}>Try again</button>` : ""}
      ${kind === "login" ? html`<button class="quiet" onClick=${() => copyText(loginCommand(adapter), "The command")}>Copy the command</button>` : ""}</div>
  </section>`;
}

/**
 * Sends the prompt of a turn again: to the session, or to a new one if its agent cannot come back. After a failure without a turn the
 * agent is started again.
 * @param {Row} row @param {Transcript} transcript @param {Session | undefined} known
 */
async function tryAgain(row, transcript, known) {
  const session = transcript.session;
  const info = known ?? (await api.get(`sessions/${session}`));
  const prompt = row.turn ? await readPrompt(session, row.turn) : null;
  const isOver = !["starting", "running"].includes(info.status) && !info.resumable;
  if (!isOver) {
    if (prompt) sendLater({ session, ...prompt });
    else await api.post(`sessions/${session}/resume`);
    return;
  }
  const isPlain = !prompt?.images.length && !prompt?.files.length;
  const label = info.label ? { label: info.label, onLabel: /** @type {const} */ ("take") } : {};
  const body = {
    adapter: info.adapterSlug,
    cwd: info.cwd,
    ...label,
    ...(isPlain && prompt?.text.trim() ? { prompt: prompt.text } : {}),
  };
  // Two taps start one session.
  const headers = { "Idempotency-Key": `again-${session}-${row.id}`, ...(isPlain ? { Prefer: "respond-async" } : {}) };
  const made = await api.post("sessions/agent", body, headers);
  // The prompt of a start is not taken if the agent fails at once.
  if (prompt && (!isPlain || (prompt.text.trim() && !made.promptId))) sendLater({ session: made.id, ...prompt });
  // The new session has all that was in one whose agent never ran. Another one keeps its history, and the label is the new one's.
  const change = info.agentSessionId ? { label: null } : { archived: true };
  if (!info.agentSessionId || info.label)
    await api.call("PATCH", `sessions/${session}`, { body: change }).catch(() => {});
  go(sessionLink(made.id));
}

/**
 * Returns the content of a turn's prompt, as its row has it; null for a turn of the agent.
 * @param {string} session @param {string} turn
 */
async function readPrompt(session, turn) {
  const page = await api.get(`sessions/${session}/rows`, { turn, kinds: "prompt", limit: 200 });
  const first = page.rows.find((one) => one.kind === "prompt" && !one.by.agent);
  if (!first) return null;
  const row = await api.get(`sessions/${session}/rows/${first.id}`);
  if (row.kind !== "prompt") return null;
  const texts = [];
  /** @type {OutgoingPrompt["images"]} */
  const images = [];
  /** @type {NamedFile[]} */
  const files = [];
  for (const part of row.parts) {
    if (part.type === "text") texts.push(part.cut ? await readCutText(session, part.cut) : part.text);
    else if (part.type === "blob") images.push(await readBlob(session, part));
    else if (part.type === "file") files.push({ path: part.name ?? part.uri, uri: part.uri });
  }
  return { text: texts.join("\n"), images, files };
}

/** Returns a text that is too large for one answer. @param {string} session @param {RowCut} cut */
async function readCutText(session, cut) {
  let text = "";
  /** @type {number | null} */
  let next = 0;
  while (next !== null) {
    const page = /** @type {RowTextPage} */ (await api.get(`sessions/${session}/${cut.whole}&offset=${next}`));
    text += page.text;
    next = page.next ?? null;
  }
  return text;
}

/** The first bytes of sounds, whose type the host does not tell. */
const SOUNDS = [
  ["RIFF", "audio/wav"],
  ["OggS", "audio/ogg"],
  ["fLaC", "audio/flac"],
];

/**
 * Returns the bytes of a part, with a name that an upload may have.
 * @param {string} session @param {RowBlobPart} part
 */
async function readBlob(session, part) {
  const response = await api.send("GET", `sessions/${session}/blobs/${part.blob}`);
  if (!response.ok) throw await api.toError(response);
  const bytes = await response.blob();
  const start = await bytes.slice(0, 4).text();
  const sound = SOUNDS.find(([beginning]) => beginning === start)?.[1] ?? "audio/mpeg";
  const blob = part.media === "audio" ? new Blob([bytes], { type: sound }) : bytes;
  return { blob, name: part.name ? baseName(part.name).slice(0, 200) : part.media, url: URL.createObjectURL(blob) };
}
