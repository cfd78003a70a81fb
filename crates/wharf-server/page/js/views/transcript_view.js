// @ts-check
/** The scrolling part of a session: opens at the end, follows it, loads older rows above without moving what is read. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import * as api from "../api.js";
import { useChangedFileLinks } from "../changed_file_links.js";
import { clock, fullDate } from "../format.js";
import { html } from "../html.js";
import { useSeen } from "../seen.js";
import { app, attempt, changed } from "../store.js";
import { plainText } from "../text.js";
import { compareRows } from "../transcript.js";
import { groupRows, RowGroup } from "./rows.js";

/** @import { LiveOutput, Row, RowPage } from "contract" */
/** @import { Transcript } from "../transcript.js" */

/** The end counts as in view within so many pixels. */
const NEAR_END_PX = 60;
/** Older rows are asked for when the beginning is so near. */
const LOAD_AHEAD_PX = 900;
/** What grows so soon after a click has been opened by it. */
const OPENED_BY_CLICK_MS = 400;

/** @param {{ transcript: Transcript, row?: string }} props */
export function TranscriptView({ transcript, row }) {
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  const content = useRef(/** @type {HTMLElement | null} */ (null));
  const following = useRef(true);
  const loading = useRef(false);
  const firstDrawn = useRef("");
  const lastTop = useRef(0);
  /** The time of the last click that may have opened something. */
  const openedAt = useRef(-Infinity);
  const anchor = useRef(/** @type {{ id: string, top: number } | null} */ (null));
  const [atEnd, setAtEnd] = useState(true);
  /** The last row when the end was left. */
  const lastSeenRow = useRef("");
  const groups = groupRows(transcript.rows, transcript);

  const toEnd = () => {
    const element = scroller.current;
    if (!element) return;
    // While the end is followed, the browser must not hold on to a row in the middle.
    element.style.overflowAnchor = "none";
    element.scrollTop = element.scrollHeight;
    lastTop.current = element.scrollTop;
  };

  const isNearEnd = () => {
    const element = scroller.current;
    return !element || element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END_PX;
  };

  /** True if a person has scrolled back, also if the scroll's own event is still to come. */
  const isMovedBack = () =>
    Boolean(scroller.current) &&
    /** @type {HTMLElement} */ (scroller.current).scrollTop < lastTop.current - 1 &&
    !isNearEnd();

  const setFollowing = (/** @type {boolean} */ follows) => {
    if (following.current && !follows) lastSeenRow.current = transcript.rows.at(-1)?.id ?? "";
    following.current = follows;
    if (scroller.current) scroller.current.style.overflowAnchor = follows ? "none" : "auto";
    setAtEnd(follows);
  };

  // Whatever grows while the end is followed, the end stays in view. A card that a person opens is read from its beginning.
  useEffect(() => {
    const observer = new ResizeObserver(() => {
      if (!following.current) return;
      const isOpened = performance.now() - openedAt.current < OPENED_BY_CLICK_MS && !isNearEnd();
      if (isOpened || isMovedBack()) setFollowing(false);
      else toEnd();
    });
    if (content.current) observer.observe(content.current);
    if (scroller.current) observer.observe(scroller.current);
    return () => observer.disconnect();
  }, [transcript]);

  // Rows that were put in above must not move the first row that is in view. The page sees to that itself when they are put in;
  // afterwards the browser does, when it learns how high they are.
  useLayoutEffect(() => {
    const [element, kept] = [scroller.current, anchor.current];
    if (!element) return;
    if (kept) {
      const target = element.querySelector(`[data-row="${CSS.escape(kept.id)}"]`);
      if (target) element.scrollTop += target.getBoundingClientRect().top - kept.top;
      anchor.current = null;
    } else if (following.current) {
      if (isMovedBack()) setFollowing(false);
      else toEnd();
    }
  }, [transcript.rows, transcript.version]);

  const keepAnchor = () => {
    const element = scroller.current;
    if (!element) return;
    const top = element.getBoundingClientRect().top;
    const first = [...element.querySelectorAll("[data-row]")].find((row) => row.getBoundingClientRect().bottom > top);
    if (!(first instanceof HTMLElement)) return;
    anchor.current = { id: first.dataset.row ?? "", top: first.getBoundingClientRect().top };
  };

  // The rows that are drawn are still the old ones: now is the time to see where they are.
  const first = transcript.rows[0]?.id ?? "";
  if (first !== firstDrawn.current && !following.current) keepAnchor();
  firstDrawn.current = first;

  /**
   * Reads a page and hands it on, unless one is on its way.
   * @param {{ before?: string, after?: string }} query @param {(page: RowPage) => void} take
   */
  const loadPage = async (query, take) => {
    if (loading.current || !transcript.loaded) return;
    loading.current = true;
    const page = await attempt(api.get(`sessions/${transcript.session}/rows`, { ...query, limit: 100 }));
    if (page && app.transcript === transcript) {
      take(page);
      changed();
    }
    loading.current = false;
  };
  const loadOlder = () =>
    void (transcript.before && loadPage({ before: transcript.before }, (page) => transcript.prepend(page)));
  const loadNewer = () =>
    void (transcript.after && loadPage({ after: transcript.after }, (page) => transcript.appendPage(page)));

  const onScroll = () => {
    const element = scroller.current;
    if (!element) return;
    const isAtEnd = isNearEnd();
    // Text that came since the last frame has moved the end away: only a person who scrolls back stops following.
    const follows = transcript.after === null && (isAtEnd || (following.current && !isMovedBack()));
    lastTop.current = element.scrollTop;
    setFollowing(follows);
    if (element.scrollTop < LOAD_AHEAD_PX) loadOlder();
    if (isAtEnd && transcript.after) loadNewer();
    if (following.current && transcript.trim()) changed();
  };

  const onClick = (/** @type {Event} */ event) => {
    if (/** @type {Element} */ (event.target).closest("button, summary")) openedAt.current = performance.now();
  };

  useEffect(() => {
    if (following.current && transcript.trim()) changed();
    else if (scroller.current && scroller.current.scrollHeight <= scroller.current.clientHeight + LOAD_AHEAD_PX)
      loadOlder();
  });

  useRowLink(transcript, row, scroller, setFollowing);
  useSeen(transcript, following);
  useChangedFileLinks(transcript, content);
  const unreadRow = useUnreadRow(transcript);

  const jump = async () => {
    setFollowing(true);
    if (transcript.after !== null) {
      const page = await attempt(api.get(`sessions/${transcript.session}/rows`, { limit: 60 }));
      if (page) transcript.showPage(page);
      changed();
    }
    toEnd();
  };

  const live = transcript.state?.live;
  return html`<div class="transcript-frame">
    <div class="transcript" ref=${scroller} onScroll=${onScroll} onClick=${onClick} tabindex="0" role="log" aria-live="off" aria-label="Transcript" id="transcript">
      <div class="transcript-rows" ref=${content}>
        ${transcript.before ? html`<div class="older"><button class="quiet" onClick=${loadOlder}>Older</button>${transcript.turnHead ? html`<span class="faint"> in: ${plainText(transcript.turnHead.summary)}</span>` : ""}</div>` : ""}
        ${transcript.loaded ? "" : html`<p class="faint" aria-busy="true">Loading…</p>`}
        ${groups.flatMap((group) => [
          ...(group.rows.some((one) => one.id === unreadRow?.id)
            ? [html`<${UnreadLine} key="unread" at=${unreadRow?.at} />`]
            : []),
          html`<${RowGroup} key=${group.key} group=${group} transcript=${transcript} marked=${row} beside=${besideOf(group.rows, transcript, live)} />`,
        ])}
        ${transcript.loaded && !groups.length ? html`<p class="faint empty">Nothing has been said yet.</p>` : ""}
        ${transcript.after ? html`<div class="older"><button class="quiet" onClick=${loadNewer}>Newer</button></div>` : ""}
      </div>
    </div>
    ${atEnd ? "" : html`<button class="jump" onClick=${jump}>↓ ${countNewer(groups, lastSeenRow.current, transcript)}</button>`}
  </div>`;
}

/** Returns the label of the jump to the newest row: how many came since the end was left. */
/** @param {{ rows: Row[] }[]} groups @param {string} last @param {Transcript} transcript */
function countNewer(groups, last, transcript) {
  if (!last || transcript.after !== null) return "Newest";
  const count = groups.flatMap((group) => group.rows).filter((row) => compareRows(row.id, last) > 0).length;
  return count ? `${count} new` : "Newest";
}

/** @param {{ at: string | undefined }} props */
function UnreadLine({ at }) {
  return html`<div class="unread-line" role="separator"><span>new since you looked${at ? html`, <time datetime=${at} title=${fullDate(at)}>${clock(at)}</time>` : ""}</span></div>`;
}

/**
 * Returns the first row that the person had not seen when the session was opened. It stays the same until the session is left.
 * @param {Transcript} transcript
 */
function useUnreadRow(transcript) {
  const opened = useRef(/** @type {{ seen: string | null, last: string } | null} */ (null));
  if (transcript.loaded)
    opened.current ??= {
      seen: transcript.state?.session?.attention?.seen ?? null,
      last: transcript.rows.at(-1)?.id ?? "",
    };
  const { seen, last } = opened.current ?? { seen: null, last: "" };
  if (!seen) return null;
  const place = transcript.rows.findIndex((row) => compareRows(row.id, seen) > 0);
  // Above the first row there may be others that were not seen, and a person who has seen none needs no line.
  if (place <= 0) return null;
  const row = transcript.rows[place];
  return compareRows(row.id, last) > 0 || (row.kind === "turn_end" && row.id === last) ? null : row;
}

/** Returns a value that changes when something that is drawn with these rows has changed: live output, answers. */
/** @param {Row[]} rows @param {Transcript} transcript @param {LiveOutput[] | undefined} live */
function besideOf(rows, transcript, live) {
  const tools = rows.filter((row) => row.kind === "tool");
  const asks = tools
    .flatMap((row) => row.asks ?? [])
    .map((id) => transcript.find(id)?.rev ?? "")
    .join();
  const output = live?.length
    ? tools.map((row) => live.find((entry) => entry.toolCallId === row.toolCallId)?.bytes ?? "").join()
    : "";
  return `${asks}/${output}`;
}

/** Opens the row of the address, loading the page around it. */
/**
 * @param {Transcript} transcript @param {string | undefined} row @param {{ current: HTMLElement | null }} scroller
 * @param {(follows: boolean) => void} setFollowing
 */
function useRowLink(transcript, row, scroller, setFollowing) {
  const done = useRef("");
  useEffect(() => {
    if (!row || !transcript.loaded || done.current === row) return;
    done.current = row;
    const show = () =>
      requestAnimationFrame(() => {
        const target = scroller.current?.querySelector(`[data-row="${CSS.escape(row)}"], #${CSS.escape(`row-${row}`)}`);
        if (!target) return;
        setFollowing(false);
        target.scrollIntoView({ block: "center" });
      });
    if (transcript.find(row)) return void show();
    attempt(api.get(`sessions/${transcript.session}/rows`, { around: row, limit: 100 })).then((page) => {
      if (!page) return;
      setFollowing(false);
      transcript.showPage(page);
      changed();
      setTimeout(show, 50);
    });
  }, [row, transcript.loaded]);
}
