// @ts-check
/** Tool calls: one line that opens. Running and failed ones are open by themselves. */
import { useState } from "preact/hooks";
import { duration, plural } from "../format.js";
import { html } from "../html.js";
import { sessionLink } from "../router.js";
import { plainText } from "../text.js";
import { Counts, Diff } from "./diff.js";
import { OtherPart, PlainText, WholeText } from "./parts.js";

/** @import { FileDiff, LiveOutput, Row } from "contract" */
/** @import { RowOf, Transcript } from "../transcript.js" */

/** @type {Record<string, { sign: string, word: string }>} */
const TOOL_STATES = {
  pending: { sign: "○", word: "waiting" },
  running: { sign: "◐", word: "running" },
  paused: { sign: "‖", word: "paused" },
  completed: { sign: "✓", word: "completed" },
  failed: { sign: "✗", word: "failed" },
  cancelled: { sign: "⊘", word: "cancelled" },
  cut_off: { sign: "✗", word: "cut off" },
};

/** @param {FileDiff[]} [diffs] */
export const sumCounts = (diffs) =>
  (diffs ?? []).reduce((sum, diff) => ({ added: sum.added + diff.added, removed: sum.removed + diff.removed }), {
    added: 0,
    removed: 0,
  });

/** Returns true for a call that is folded to one line. @param {Row} row */
export const isQuietTool = (row) => row.kind === "tool" && row.state === "completed" && !row.childSession;

/** @param {{ row: RowOf<"tool">, transcript: Transcript, opened?: boolean }} props */
export function Tool({ row, transcript, opened }) {
  const live = transcript.state?.live?.find((entry) => entry.toolCallId === row.toolCallId);
  const byItself = opened || ["failed", "cut_off"].includes(row.state) || (row.open && Boolean(live || row.output));
  const [chosen, setChosen] = useState(/** @type {boolean | null} */ (null));
  const isOpen = chosen ?? byItself;
  const state = TOOL_STATES[row.state] ?? { sign: "•", word: row.state };
  const counts = sumCounts(row.diffs);
  const exit = row.output?.exitCode;
  return html`<div class=${`tool tool-${row.state}`}>
    <button class="tool-head" aria-expanded=${isOpen} onClick=${() => setChosen(!isOpen)}>
      <span class="tool-sign" aria-hidden="true">${state.sign}</span>
      <span class="tool-title">${plainText(row.title)}</span>
      ${row.diffs?.length ? html`<${Counts} ...${counts} />` : ""}
      ${exit !== undefined && exit !== null && exit !== 0 ? html`<span class="failed-word">exit ${exit}</span>` : ""}
      ${row.children ? html`<span class="faint">${plural(row.children.count, "step")}</span>` : ""}
      ${row.endedAt ? html`<span class="faint tool-time">${toolTime(row)}</span>` : ""}
    </button>
    ${isOpen ? html`<${ToolBody} row=${row} live=${live} transcript=${transcript} />` : ""}
    ${(row.asks ?? []).map((id) => html`<${AnsweredAsk} ask=${transcript.find(id)} />`)}
  </div>`;
}

/** Returns a call in a line of words, for a screen reader. @param {RowOf<"tool">} row */
export function describeTool(row) {
  const counts = sumCounts(row.diffs);
  const changes = row.diffs?.length ? `, ${counts.added} added, ${counts.removed} removed` : "";
  return `Tool, ${row.toolKind ?? "other"}, ${plainText(row.title)}, ${TOOL_STATES[row.state]?.word ?? row.state}${changes}`;
}

/** @param {RowOf<"tool">} row */
function toolTime(row) {
  const millis = Date.parse(row.endedAt ?? "") - Date.parse(row.startedAt);
  return millis >= 1000 ? duration(millis) : "";
}

/** @param {{ row: RowOf<"tool">, live: LiveOutput | undefined, transcript: Transcript }} props */
function ToolBody({ row, live, transcript }) {
  const text = live?.text ?? row.output?.text ?? "";
  const shows = row.command || row.diffs?.length || text || row.parts?.length || row.error;
  return html`<div class="tool-body">
    ${row.command && row.command !== row.title ? html`<pre class="command" tabindex="0"><${PlainText} text=${row.command} /></pre>` : ""}
    ${row.error ? html`<p class="failed-word">${plainText(row.error)}</p>` : ""}
    ${(row.diffs ?? []).map((diff) => html`<${Diff} diff=${diff} />`)}
    ${text ? html`<pre class="output" tabindex="0"><${PlainText} text=${text} /></pre>` : ""}
    ${row.output?.cut ? html`<${WholeText} session=${transcript.session} cut=${row.output.cut} />` : ""}
    ${(row.parts ?? []).map((part) =>
      part.type === "text"
        ? html`<pre class="output" tabindex="0"><${PlainText} text=${part.text} /></pre>${part.cut ? html`<${WholeText} session=${transcript.session} cut=${part.cut} />` : ""}`
        : html`<${OtherPart} part=${part} session=${transcript.session} />`,
    )}
    ${row.locations?.length && !row.diffs?.length ? html`<p class="faint">${row.locations.map((place) => plainText(place.path) + (place.line ? `:${place.line}` : "")).join(", ")}</p>` : ""}
    ${!shows && row.input ? html`<pre class="output" tabindex="0"><${PlainText} text=${JSON.stringify(row.input, null, 2)} /></pre>` : ""}
    ${row.childSession ? html`<p><a href=${sessionLink(row.childSession)}>Open the session of this subagent</a></p>` : ""}
  </div>`;
}

/** @type {Record<string, string>} */
const ASK_WORDS = {
  declined: "declined",
  cancelled: "no answer: cancelled",
  withdrawn: "withdrawn by the agent",
  agent_gone: "the agent ended before an answer",
};

/** @param {RowOf<"ask">} ask */
export function describeAnswer(ask) {
  if (ask.state !== "answered") return ASK_WORDS[ask.state] ?? ask.state;
  const by = ask.answer?.by?.name ? ` · ${ask.answer.by.name}` : "";
  return `${ask.answer?.name ?? "answered"}${by} · ${duration(ask.answer?.after ?? 0)}`;
}

/** @param {{ ask: RowOf<"ask"> | undefined }} props */
function AnsweredAsk({ ask }) {
  if (!ask || ask.state === "open") return ask ? html`<p class="ask-line">? waits for an answer</p>` : "";
  return html`<p class="ask-line">${plainText(describeAnswer(ask))}</p>`;
}

/**
 * Three or more calls that succeeded one after the other: one line.
 * @param {{ rows: RowOf<"tool">[], transcript: Transcript, marked?: string }} props
 */
export function ToolGroup({ rows, transcript, marked }) {
  const [chosen, setChosen] = useState(/** @type {boolean | null} */ (null));
  const isOpen = chosen ?? rows.some((row) => row.id === marked);
  const diffs = rows.flatMap((row) => row.diffs ?? []);
  const counts = sumCounts(diffs);
  const files = new Set(diffs.map((diff) => diff.path)).size;
  return html`<div class="tool-group"><h3 class="hidden-text">${plural(rows.length, "tool call")}, completed</h3>
    <button class="tool-head" aria-expanded=${isOpen} onClick=${() => setChosen(!isOpen)}>
      <span class="tool-sign" aria-hidden="true">✓</span>
      <span class="tool-title">${plural(rows.length, "step")}${files ? ` · ${plural(files, "file")}` : ""}</span>
      ${files ? html`<${Counts} ...${counts} />` : ""}
      <span class="faint tool-latest">${isOpen ? "" : plainText(rows.at(-1)?.title ?? "")}</span>
    </button>
    ${isOpen ? html`<div class="tool-group-body">${rows.map((row) => html`<div id=${`row-${row.id}`}><h4 class="hidden-text">${describeTool(row)}</h4><${Tool} key=${row.id} row=${row} transcript=${transcript} opened=${row.id === marked} /></div>`)}</div>` : ""}
  </div>`;
}
