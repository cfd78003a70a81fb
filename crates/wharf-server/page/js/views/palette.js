// @ts-check
/** The palette: go to a session or do something, by some letters of its name. */
import { useState } from "preact/hooks";
import { groupSessions, signOf } from "../attention.js";
import { placeOf, titleOf } from "../format.js";
import { html } from "../html.js";
import { go, sessionLink } from "../router.js";
import { app } from "../store.js";
import { plainText } from "../text.js";
import { Dialog } from "./dialog.js";

/** @import { EventOf } from "../html.js" */

const COMMANDS = [
  ["New session", "#/new"],
  ["Search all sessions", "#/search"],
  ["Devices and notifications", "#/devices"],
  ["About and keys", "#/about"],
];
const MAX_SHOWN = 12;

/** @param {{ onClose: () => void }} props */
export function Palette({ onClose }) {
  const [text, setText] = useState("");
  const [selected, setSelected] = useState(0);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const sessions = groupSessions(app.sessions.values()).flatMap((group) => group.sessions);
  const entries = [
    ...sessions.map((session) => ({
      name: plainText(titleOf(session)),
      hint: `${placeOf(session)} · ${signOf(session).word}`,
      target: sessionLink(session.id),
    })),
    ...COMMANDS.map(([name, target]) => ({ name, hint: "", target })),
  ]
    .filter((entry) => words.every((word) => `${entry.name} ${entry.hint}`.toLowerCase().includes(word)))
    .slice(0, MAX_SHOWN);
  const choose = (/** @type {number} */ index) => {
    const entry = entries[index];
    if (!entry) return;
    onClose();
    go(entry.target);
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      setSelected((selected + (event.key === "ArrowDown" ? 1 : entries.length - 1)) % Math.max(1, entries.length));
    } else if (event.key === "Enter") choose(selected);
  };
  return html`<${Dialog} title="Go to" onClose=${onClose} class="palette" heading=${false}>
    <input data-first type="search" aria-label="Session or command" placeholder="Session or command" value=${text} onKeyDown=${onKeyDown} onInput=${(
      /** @type {EventOf<HTMLInputElement>} */ event,
    ) => {
      setText(event.target.value);
      setSelected(0);
    }} />
    <ul class="palette-list">${entries.map((entry, index) => html`<li><button class=${index === selected ? "current" : ""} onClick=${() => choose(index)}>${entry.name} <span class="faint">${entry.hint}</span></button></li>`)}</ul><//>`;
}
