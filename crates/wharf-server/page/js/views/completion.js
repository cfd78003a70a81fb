// @ts-check
/** Completion in the composer: `/command` at the beginning, `@file` anywhere. */
import { useEffect, useState } from "preact/hooks";
import * as api from "../api.js";
import { html } from "../html.js";
import { plainText } from "../text.js";

/** @import { AgentCommandInfo, File as ListedFile, Query } from "contract" */

/** @typedef {{ from: number, to: number, items: { text: string, hint: string, file?: ListedFile }[] }} Completion */

/** The path of a search for files. @typedef {`sessions/${string}/files${Query}`} FilePath */

/** Returns the word before the caret that can be completed. @param {string} text @param {number} caret */
export function findTrigger(text, caret) {
  const before = text.slice(0, caret);
  const slash = /^\/(\S*)$/.exec(before);
  if (slash) return { kind: "command", query: slash[1], from: 0 };
  const at = /(^|\s)@(\S*)$/.exec(before);
  if (at) return { kind: "file", query: at[2], from: caret - at[2].length - 1 };
  return null;
}

/** A search that found nothing yet is asked for again so often, with this pause. */
const SEARCH_TRIES = 5;
const SEARCH_PAUSE_MS = 200;

/**
 * Asks for files until the host has found one or has seen all.
 * @param {FilePath} path @param {() => boolean} isStale @param {() => void} onNothingYet
 */
async function findFiles(path, isStale, onNothingYet) {
  for (let tried = 1; ; tried += 1) {
    const answer = await api.get(path).catch(() => null);
    if (!answer?.partial || answer.files.length || tried === SEARCH_TRIES || isStale()) return answer;
    onNothingYet();
    await new Promise((resolve) => setTimeout(resolve, SEARCH_PAUSE_MS));
  }
}

/**
 * Returns what can be chosen for the text before the caret.
 * @param {{ text: string, caret: number, commands: AgentCommandInfo[], filePath: (query: string) => FilePath }} options
 * @returns {Completion | null}
 */
export function useCompletion({ text, caret, commands, filePath }) {
  const [found, setFound] = useState(/** @type {Completion | null} */ (null));
  const trigger = findTrigger(text, caret);
  const key = trigger ? `${trigger.kind}:${trigger.from}:${trigger.query}` : "";
  useEffect(() => {
    if (!trigger) return setFound(null);
    if (trigger.kind === "command") {
      const items = commands
        .filter((command) => command.name.startsWith(trigger.query))
        .slice(0, 12)
        .map((command) => ({
          text: `/${command.name}${command.hint ? " " : ""}`,
          hint: plainText(command.description ?? command.hint ?? ""),
        }));
      return setFound(items.length ? { from: 0, to: caret, items } : null);
    }
    let stale = false;
    const timer = setTimeout(async () => {
      const answer = await findFiles(
        filePath(trigger.query),
        () => stale,
        () => setFound(null),
      );
      if (stale || !answer) return;
      const items = answer.files.map((file) => ({
        text: `@${file.path} `,
        hint: file.kind === "directory" ? "directory" : "",
        file,
      }));
      setFound(items.length ? { from: trigger.from, to: caret, items } : null);
    }, 80);
    return () => {
      stale = true;
      clearTimeout(timer);
    };
  }, [key, commands]);
  return trigger ? found : null;
}

/** @param {{ completion: Completion, selected: number, onChoose: (index: number) => void }} props */
export function CompletionList({ completion, selected, onChoose }) {
  return html`<ul class="completion" role="listbox" id="completion" aria-label="Completion">${completion.items.map(
    (item, index) => html`<li role="option" id=${`completion-${index}`} aria-selected=${index === selected}
    onMouseDown=${(/** @type {Event} */ event) => {
      event.preventDefault();
      onChoose(index);
    }}><span>${plainText(item.text)}</span> <span class="faint">${item.hint}</span></li>`,
  )}</ul>`;
}
