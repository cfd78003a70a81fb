// @ts-check
/** The rows of a transcript, each drawn once until it changes. */
import { Component } from "preact";
import { useState } from "preact/hooks";
import { failureOf, repeatsFailure } from "../failures.js";
import { clock, duration, fullDate, money, plural, tokenCount } from "../format.js";
import { html } from "../html.js";
import { changesLink, sessionLink } from "../router.js";
import { plainText } from "../text.js";
import { Counts } from "./diff.js";
import { FailureCard } from "./failure.js";
import { PlainText, RowParts } from "./parts.js";
import { describeAnswer, describeTool, isQuietTool, Tool, ToolGroup } from "./tool.js";

/** @import { Row } from "contract" */
/** @import { RowOf, Transcript } from "../transcript.js" */

/** Rows that are drawn together. @typedef {{ key: string, rows: Row[] }} Group */

/** Calls in a row that are folded together. */
const MIN_GROUP = 3;

/**
 * Returns the rows in the groups in which they are drawn.
 * @param {readonly Row[]} rows @param {Transcript} transcript
 * @returns {Group[]}
 */
export function groupRows(rows, transcript) {
  /** @type {Group[]} */
  const groups = [];
  /** @type {Row[]} */
  let quiet = [];
  const flush = () => {
    if (quiet.length >= MIN_GROUP) groups.push({ key: `g${quiet[0].id}`, rows: quiet });
    else groups.push(...quiet.map((row) => ({ key: row.id, rows: [row] })));
    quiet = [];
  };
  for (const [index, row] of rows.entries()) {
    if (isHidden(row, transcript) || repeatsFailure(row, rows[index - 1])) continue;
    if (isQuietTool(row) && (!quiet.length || quiet[0].turn === row.turn)) quiet.push(row);
    else {
      flush();
      if (isQuietTool(row)) quiet.push(row);
      else groups.push({ key: row.id, rows: [row] });
    }
  }
  flush();
  return groups;
}

/** @param {Row} row @param {Transcript} transcript */
function isHidden(row, transcript) {
  if (row.kind === "notice") return row.level === "debug";
  if (row.kind === "ask") return Boolean(transcript.find(row.tool));
  return false;
}

/** @typedef {{ group: Group, transcript: Transcript, marked?: string, beside: string }} RowGroupProps */

/**
 * Draws a group again only if its rows, or what is shown beside them, have changed.
 * @extends {Component<RowGroupProps>}
 */
export class RowGroup extends Component {
  /** @param {Readonly<RowGroupProps>} next */
  shouldComponentUpdate(next) {
    const { group, marked, beside } = this.props;
    return (
      marked !== next.marked ||
      beside !== next.beside ||
      group.rows.length !== next.group.rows.length ||
      group.rows.some((row, index) => row !== next.group.rows[index])
    );
  }

  render() {
    const { group, transcript, marked } = this.props;
    const row = group.rows[0];
    const isMarked = group.rows.some((one) => one.id === marked);
    return html`<article id=${`row-${group.rows.length > 1 ? `group-${row.id}` : row.id}`} class=${`row row-${row.kind}${isMarked ? " marked" : ""}`} data-row=${row.id}>
      ${group.rows.length > 1 ? html`<${ToolGroup} rows=${group.rows} transcript=${transcript} marked=${marked} />` : html`<${RowBody} row=${row} transcript=${transcript} opened=${isMarked} />`}
    </article>`;
  }
}

/** @param {{ row: Row, transcript: Transcript, opened: boolean }} props */
function RowBody({ row, transcript, opened }) {
  switch (row.kind) {
    case "prompt":
      return html`<${Prompt} row=${row} transcript=${transcript} />`;
    case "message":
      return html`<h3 class="hidden-text">Agent</h3><${RowParts} row=${row} transcript=${transcript} markdown=${true} />`;
    case "thought":
      return html`<${Thought} row=${row} transcript=${transcript} />`;
    case "tool":
      return html`<h3 class="hidden-text">${describeTool(row)}</h3><${Tool} row=${row} transcript=${transcript} opened=${opened} />`;
    case "plan":
      return html`<${Plan} row=${row} />`;
    case "ask":
      return html`<p class="ask-line"><h3 class="hidden-text">Question</h3>? ${plainText(row.subject.title)} ${row.state === "open" ? "waits for an answer" : `— ${plainText(describeAnswer(row))}`}</p>`;
    case "notice":
      return failureOf(row)
        ? html`<${FailureCard} row=${row} transcript=${transcript} />`
        : html`<${Notice} row=${row} />`;
    case "turn_end":
      return html`<${TurnEnd} row=${row} transcript=${transcript} />`;
    default:
      return html`<p class="notice">${plainText(row.summary)}</p>`;
  }
}

/** @param {{ row: RowOf<"prompt">, transcript: Transcript }} props */
function Prompt({ row, transcript }) {
  const by = row.by.agent ? "the agent" : row.by.parentSession ? "another agent" : (row.by.name ?? "");
  return html`<div class="prompt">
    <h3 class="row-head"><span>You</span>${by && by !== "Wharf page" ? html` <span class="faint">· ${plainText(by)}</span>` : ""}${row.again ? html` <span class="faint">· again, after an interruption</span>` : ""}
      <a class="time faint" href=${sessionLink(transcript.session, row.id)}><time datetime=${row.at} title=${fullDate(row.at)}>${clock(row.at)}</time></a></h3>
    <${RowParts} row=${row} transcript=${transcript} markdown=${false} />
  </div>`;
}

/** @param {{ row: RowOf<"thought">, transcript: Transcript }} props */
function Thought({ row, transcript }) {
  const [open, setOpen] = useState(false);
  const seconds = Date.parse(row.changedAt) - Date.parse(row.at);
  return html`<div class="thought">
    <button class="tool-head" aria-expanded=${open} onClick=${() => setOpen(!open)}>
      <span class="tool-sign" aria-hidden="true">${open ? "▾" : "▸"}</span>
      <span class="tool-title">${row.open ? "Thinking…" : seconds >= 1000 ? `Thought for ${duration(seconds)}` : "Thought"}</span>
    </button>
    ${open ? html`<div class="thought-body"><${RowParts} row=${row} transcript=${transcript} markdown=${true} /></div>` : ""}
  </div>`;
}

/** @type {Record<string, string>} */
const PLAN_SIGNS = { completed: "✓", in_progress: "▸", pending: "○" };

/** @param {{ row: RowOf<"plan"> }} props */
export function Plan({ row }) {
  return html`<div class="plan"><h3 class="row-head">Plan <span class="faint">${row.done} of ${row.total}</span></h3>
    <ol>${row.entries.map((entry) => html`<li class=${`plan-${entry.status}`}><span aria-hidden="true">${PLAN_SIGNS[entry.status] ?? "•"} </span><span class="hidden-text">${entry.status.replace("_", " ")}: </span>${plainText(entry.text)}</li>`)}</ol></div>`;
}

/** @param {{ row: RowOf<"notice"> }} props */
function Notice({ row }) {
  const link = row.forkedFrom
    ? html` <a href=${sessionLink(row.forkedFrom.sessionId)}>the conversation before</a>`
    : "";
  return html`<p class=${`notice notice-${row.level}`}>${plainText(row.text)}${link}</p>`;
}

/** @type {Record<string, string>} */
const OUTCOMES = {
  done: "Done",
  stopped: "Stopped",
  refused: "Refused",
  cancelled: "Cancelled",
  failed: "Failed",
  cut_off: "Cut off",
};

/** @param {{ row: RowOf<"turn_end">, transcript: Transcript }} props */
function TurnEnd({ row, transcript }) {
  const session = transcript.session;
  const failure = failureOf(row);
  const bad = !failure && ["failed", "cut_off", "refused"].includes(row.outcome);
  const counts = row.files.reduce(
    (sum, file) => ({ added: sum.added + file.added, removed: sum.removed + file.removed }),
    { added: 0, removed: 0 },
  );
  const facts = [
    row.durationMs != null ? duration(row.durationMs) : "",
    row.tools.count ? plural(row.tools.count, "tool") + (row.tools.failed ? `, ${row.tools.failed} failed` : "") : "",
    row.usage?.input != null || row.usage?.output != null
      ? `${tokenCount(row.usage, row.usage.input)} in, ${tokenCount(row.usage, row.usage.output)} out`
      : "",
    money(row.usage?.cost),
  ].filter(Boolean);
  return html`<div class=${`turn-end${bad ? " bad" : ""}`}><h3 class="hidden-text">End of the turn</h3>
    <p>${OUTCOMES[row.outcome] ?? row.outcome}${row.reason !== "end_turn" && row.outcome !== "cancelled" && !failure ? ` (${plainText(row.reason)})` : ""}${facts.map((fact) => ` · ${fact}`)}
      ${row.files.length ? html` · <a href=${changesLink(session, row.files.length === 1 ? row.files[0].path : undefined)}>${plural(row.files.length, "file")}</a> <${Counts} ...${counts} />` : ""}</p>
    ${
      failure
        ? html`<${FailureCard} row=${row} transcript=${transcript} />`
        : html`${row.message ? html`<p class="failed-word">${plainText(row.message)}</p>` : ""}
    ${row.stderr ? html`<pre class="output" tabindex="0"><${PlainText} text=${row.stderr} /></pre>` : ""}
    ${row.next?.requeued ? html`<p class="faint">The prompt is in the queue again.</p>` : ""}`
    }
  </div>`;
}
