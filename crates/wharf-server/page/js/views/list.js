// @ts-check
/** The list of sessions: those that need a person first, then by workspace. */
import { useEffect, useRef, useState } from "preact/hooks";
import { groupSessions, nestChildren, signOf } from "../attention.js";
import { describeAttention } from "../failures.js";
import { age, fullDate, placeOf, titleOf } from "../format.js";
import { html } from "../html.js";
import { go, sessionLink } from "../router.js";
import { app, mayControl, useApp } from "../store.js";
import { plainText } from "../text.js";
import { openAskSheet } from "./ask.js";
import { Icon } from "./icon.js";

/** @import { Attention, Session } from "contract" */

/** The order stays for so long after a touch, so that a tap meets what it was meant for. */
const HOLD_ORDER_MS = 1000;
/** Sessions of a group that are shown before "more". */
const SHOWN_PER_GROUP = 30;

export function SessionList() {
  useApp();
  const touchedAt = useRef(0);
  const held = useRef(/** @type {ReturnType<typeof groupSessions> | null} */ (null));
  const [, redraw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => redraw((count) => count + 1), 20_000);
    return () => clearInterval(timer);
  }, []);
  let groups = groupSessions(app.sessions.values(), app.answers);
  if (Date.now() - touchedAt.current < HOLD_ORDER_MS && held.current) {
    groups = held.current.map((group) => ({
      ...group,
      sessions: group.sessions.map(({ id }) => app.sessions.get(id)).filter((session) => session !== undefined),
    }));
    setTimeout(() => redraw((count) => count + 1), HOLD_ORDER_MS);
  } else held.current = groups;
  return html`<nav class="list" aria-label="Sessions" onPointerDown=${() => {
    touchedAt.current = Date.now();
  }}>
    ${app.listed ? "" : html`<p class="faint list-note" aria-busy="true">Loading…</p>`}
    ${app.listed && !groups.length ? html`<p class="faint list-note">No sessions yet.</p>` : ""}
    ${groups.map((group) => html`<${Group} key=${group.key} group=${group} />`)}
  </nav>`;
}

/** @param {{ group: ReturnType<typeof groupSessions>[number] }} props */
function Group({ group }) {
  const [open, setOpen] = useState(group.key !== "archived");
  const [all, setAll] = useState(false);
  const nested = nestChildren(group.sessions);
  const shown = all ? nested : nested.slice(0, SHOWN_PER_GROUP);
  return html`<section class=${`group group-${group.key === "needs" ? "needs" : "place"}`}><h2><button class="group-head" aria-expanded=${open} title=${group.hint} onClick=${() => setOpen(!open)}>${plainText(group.title)} <span class="group-count">${group.sessions.length}</span></button></h2>
    ${
      open
        ? html`<ul>${shown.map(({ session, depth }) => html`<${Item} key=${session.id} session=${session} depth=${depth} withPlace=${group.key === "needs" || group.key === "archived"} />`)}</ul>
      ${nested.length > shown.length ? html`<button class="quiet" onClick=${() => setAll(true)}>${nested.length - shown.length} more</button>` : ""}`
        : ""
    }</section>`;
}

/** @param {{ session: Session, depth: number, withPlace: boolean }} props */
function Item({ session, depth, withPlace }) {
  const sign = signOf(session);
  const attention = /** @type {Partial<Attention>} */ (session.attention ?? {});
  const answer = app.answers.get(session.id);
  const line =
    answer ??
    describeAttention(session) ??
    (attention.state === "working" && attention.why === "starting" ? "starting" : (session.message ?? ""));
  const isCurrent = app.route.id === session.id;
  const asks = attention.state === "needs_answer" && !answer;
  return html`<li class=${`item state-${answer ? "answered" : sign.state}${isCurrent ? " current" : ""}${depth ? " child" : ""}`} data-depth=${depth || undefined}>
    <a href=${sessionLink(attention.via ?? session.id)} aria-current=${isCurrent ? "page" : undefined} data-session=${session.id}>
      <span class="sign" aria-hidden="true">${answer ? "✓" : sign.sign}</span><span class="hidden-text">${depth ? "started by the session above, " : ""}${answer ? "answered" : sign.word}: </span>
      <span class="item-title">${plainText(titleOf(session))}</span>
      <span class="item-age">${attention.muted ? html`<span class="muted-mark" title="muted"><${Icon} name="muted" /><span class="hidden-text">muted</span></span>` : ""}${attention.since ? html`<time datetime=${attention.since} title=${fullDate(attention.since)}>${age(attention.since)}</time>` : ""}</span>
      ${withPlace || line ? html`<span class="item-line">${withPlace ? `${placeOf(session)}${line ? " · " : ""}` : ""}${plainText(line)}</span>` : ""}
    </a>
    ${asks && mayControl() ? html`<button class="review" onClick=${() => openAskSheet(session.id)}>Review${(attention.count ?? 0) > 1 ? ` ${attention.count}` : ""}<span class="hidden-text"> the question of ${plainText(titleOf(session))}</span></button>` : ""}
  </li>`;
}

/** Moves to the next or the previous session of the list. @param {number} step */
export function moveInList(step) {
  const shown = groupSessions(app.sessions.values(), app.answers).filter((group) => group.key !== "archived");
  const ids = shown.flatMap((group) => nestChildren(group.sessions)).map(({ session }) => session.id);
  const place = ids.indexOf(app.route.id ?? "");
  const next = ids[place < 0 ? (step > 0 ? 0 : ids.length - 1) : Math.min(ids.length - 1, Math.max(0, place + step))];
  if (next) go(sessionLink(next));
}
