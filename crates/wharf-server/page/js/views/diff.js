// @ts-check
/** Diffs, as the host computed them: one column of lines with signs, numbers where they are known. */
import { html } from "../html.js";
import { plainText } from "../text.js";

/** @import { DiffHunk, FileDiff } from "contract" */

/** @param {{ added: number, removed: number }} counts */
export function Counts({ added, removed }) {
  return html`<span class="counts"><span aria-hidden="true"><span class="added">+${added}</span> <span class="removed">−${removed}</span></span><span class="hidden-text">${added} added, ${removed} removed</span></span>`;
}

/** @type {Record<string, string>} */
const CHANGE_WORDS = { create: "new file", delete: "deleted" };
/** @type {Record<string, { name: string, word: string }>} */
const LINE_KINDS = {
  "+": { name: "added", word: "added: " },
  "-": { name: "removed", word: "removed: " },
  " ": { name: "", word: "" },
};

/** @param {{ diff: FileDiff }} props */
export function Diff({ diff }) {
  return html`<figure class="diff">
    <figcaption><span class="path">${plainText(diff.path)}</span> ${CHANGE_WORDS[diff.change] ? html`<span class="faint">${CHANGE_WORDS[diff.change]}</span>` : ""} <${Counts} ...${diff} /></figcaption>
    <div class="diff-lines" tabindex="0" role="group" aria-label=${`Changes of ${plainText(diff.path)}`}>
      ${diff.hunks.map((hunk, index) => html`<${Hunk} hunk=${hunk} first=${index === 0} />`)}
    </div>
    ${diff.cut ? html`<p class="faint">The diff is longer than is shown here.</p>` : ""}
  </figure>`;
}

/** @param {{ hunk: DiffHunk, first: boolean }} props */
function Hunk({ hunk, first }) {
  let [old, now] = [hunk.old?.[0] ?? 0, hunk.new?.[0] ?? 0];
  return html`${first ? "" : html`<div class="hunk-gap" aria-hidden="true">⋯</div>`}${hunk.lines.map((line) => {
    const sign = line[0] ?? " ";
    const kind = LINE_KINDS[sign] ?? LINE_KINDS[" "];
    const numbers = hunk.old ? [sign === "+" ? "" : old++, sign === "-" ? "" : now++] : null;
    return html`<div class=${`line ${kind.name}`}>
      ${numbers ? html`<span class="number" aria-hidden="true">${numbers[0]}</span><span class="number" aria-hidden="true">${numbers[1]}</span>` : ""}
      <span class="sign" aria-hidden="true">${sign}</span><span class="hidden-text">${kind.word}</span><span class="code">${plainText(line.slice(1))}</span>
    </div>`;
  })}`;
}
