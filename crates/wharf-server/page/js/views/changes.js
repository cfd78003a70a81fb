// @ts-check
/** The files that a session has changed, with their diffs. */
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "../api.js";
import { plural } from "../format.js";
import { html } from "../html.js";
import { sessionLink } from "../router.js";
import { app, attempt } from "../store.js";
import { plainText } from "../text.js";
import { Counts, Diff } from "./diff.js";

/** @import { ChangedFile, ChangedFileList, FileDiff } from "contract" */

/** @param {{ id: string, file: string }} props file: the one that is open at first */
export function Changes({ id, file: wanted }) {
  const [list, setList] = useState(/** @type {ChangedFileList | null} */ (null));
  const turn = app.sessions.get(id)?.turn;
  useEffect(() => {
    attempt(api.get(`sessions/${id}/changes`)).then((answer) => answer && setList(answer));
  }, [id, turn]);
  return html`<div class="page changes"><p><a href=${sessionLink(id)}>‹ Back to the session</a></p><h1>Changed files</h1>
    ${
      !list
        ? html`<p class="faint">Loading…</p>`
        : !list.files.length
          ? html`<p class="faint">No changes. Changes that an agent makes by a command, without telling of them, are not among these.</p>`
          : html`
      <p>${plural(list.total, "file")} <${Counts} ...${list} /></p>
      ${list.files.map((file) => html`<${File} key=${file.path} file=${file} session=${id} isWanted=${file.path === wanted} />`)}
      <p class="faint">These are the changes that the agent told of. A line that was changed twice counts twice.${list.partial ? " There are more." : ""}</p>`
    }</div>`;
}

/** @param {{ file: ChangedFile, session: string, isWanted: boolean }} props */
function File({ file, session, isWanted }) {
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const [diffs, setDiffs] = useState(/** @type {{ row: string, diff: FileDiff }[] | null} */ (null));
  const [open, setOpen] = useState(false);
  const toggle = async () => {
    setOpen(!open);
    if (open || diffs) return;
    const rows = await Promise.all(
      file.rows
        .slice(0, 10)
        .reverse()
        .map((row) => api.get(`sessions/${session}/rows/${row}`).catch(() => null)),
    );
    setDiffs(
      rows
        .filter((row) => row?.kind === "tool")
        .flatMap((row) =>
          (row.diffs ?? []).filter((diff) => diff.path === file.path).map((diff) => ({ row: row.id, diff })),
        ),
    );
  };
  useEffect(() => {
    if (isWanted) toggle().then(() => frame.current?.scrollIntoView({ block: "nearest" }));
  }, [isWanted]);
  return html`<div class="changed-file" ref=${frame}><button class="tool-head" aria-expanded=${open} onClick=${toggle}><span class="tool-sign" aria-hidden="true">${open ? "▾" : "▸"}</span><span class="tool-title">${plainText(file.path)}</span> ${file.status !== "changed" ? html`<span class="faint">${file.status}</span>` : ""} <${Counts} ...${file} /></button>
    ${open ? (diffs ?? []).map(({ row, diff }) => html`<div><${Diff} diff=${diff} /><p><a class="faint" href=${sessionLink(session, row)}>In the transcript</a></p></div>`) : ""}</div>`;
}
