// @ts-check
/** The scrolling part of a session: opens at the end, follows it, loads older rows above without moving what is read. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import * as api from "../api.js";
import { html } from "../html.js";
import { app, attempt, changed } from "../store.js";
import { plainText } from "../text.js";
import { groupRows, RowGroup } from "./rows.js";

/** The end counts as in view within so many pixels. */
const NEAR_END_PX = 60;
/** Older rows are asked for when the beginning is so near. */
const LOAD_AHEAD_PX = 900;
const SEEN_AFTER_MS = 1000;
const SEEN_INTERVAL_MS = 2000;

/** @param {{ transcript: import("../transcript.js").Transcript, row?: string }} props */
export function TranscriptView({ transcript, row }) {
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  const content = useRef(/** @type {HTMLElement | null} */ (null));
  const following = useRef(true);
  const loading = useRef(false);
  const firstDrawn = useRef("");
  const lastTop = useRef(0);
  const anchor = useRef(/** @type {{ id: string, top: number } | null} */ (null));
  const [atEnd, setAtEnd] = useState(true);
  const [seenVersion, setSeenVersion] = useState(0);
  const groups = groupRows(transcript.rows, transcript);

  const toEnd = () => {
    const element = scroller.current;
    if (!element) return;
    // While the end is followed, the browser must not hold on to a row in the middle.
    element.style.overflowAnchor = "none";
    element.scrollTop = element.scrollHeight;
    lastTop.current = element.scrollTop;
  };

  // Whatever grows while the end is followed, the end stays in view.
  useEffect(() => {
    const observer = new ResizeObserver(() => {
      if (following.current) toEnd();
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
    } else if (following.current) toEnd();
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

  const loadOlder = async () => {
    if (loading.current || !transcript.before || !transcript.loaded) return;
    loading.current = true;
    const page = await attempt(api.get(`sessions/${transcript.session}/rows`, { before: transcript.before, limit: 100 }));
    if (page && app.transcript === transcript) {
      transcript.prepend(page);
      changed();
    }
    loading.current = false;
  };

  const loadNewer = async () => {
    if (loading.current || !transcript.after) return;
    loading.current = true;
    const page = await attempt(api.get(`sessions/${transcript.session}/rows`, { after: transcript.after, limit: 100 }));
    if (page && app.transcript === transcript) {
      transcript.appendPage(page);
      changed();
    }
    loading.current = false;
  };

  const onScroll = () => {
    const element = scroller.current;
    if (!element) return;
    const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END_PX;
    // Text that came since the last frame has moved the end away: only a person who scrolls back stops following.
    const movedBack = element.scrollTop < lastTop.current - 1;
    lastTop.current = element.scrollTop;
    following.current = transcript.after === null && (isAtEnd || (following.current && !movedBack));
    element.style.overflowAnchor = following.current ? "none" : "auto";
    if (following.current !== atEnd) {
      setAtEnd(following.current);
      setSeenVersion(transcript.version);
    }
    if (element.scrollTop < LOAD_AHEAD_PX) loadOlder();
    if (isAtEnd && transcript.after) loadNewer();
    if (following.current && transcript.trim()) changed();
  };

  useEffect(() => {
    if (following.current && transcript.trim()) changed();
    else if (scroller.current && scroller.current.scrollHeight <= scroller.current.clientHeight + LOAD_AHEAD_PX) loadOlder();
  });

  useRowLink(transcript, row, scroller, following, setAtEnd);
  useSeen(transcript, following);

  const jump = async () => {
    following.current = true;
    setAtEnd(true);
    if (transcript.after !== null) {
      const page = await attempt(api.get(`sessions/${transcript.session}/rows`, { limit: 60 }));
      if (page) transcript.showPage(page);
      changed();
    }
    toEnd();
  };

  const live = transcript.state?.live;
  return html`<div class="transcript-frame">
    <div class="transcript" ref=${scroller} onScroll=${onScroll} tabindex="0" role="log" aria-live="off" aria-label="Transcript" id="transcript">
      <div class="transcript-rows" ref=${content}>
        ${transcript.before ? html`<div class="older"><button class="quiet" onClick=${loadOlder}>Older</button>${transcript.turnHead ? html`<span class="faint"> in: ${plainText(transcript.turnHead.summary)}</span>` : ""}</div>` : ""}
        ${transcript.loaded ? "" : html`<p class="faint" aria-busy="true">Loading…</p>`}
        ${groups.map((group) => html`<${RowGroup} key=${group.key} group=${group} transcript=${transcript} marked=${row} beside=${besideOf(group.rows, transcript, live)} />`)}
        ${transcript.loaded && !groups.length ? html`<p class="faint empty">Nothing has been said yet.</p>` : ""}
        ${transcript.after ? html`<div class="older"><button class="quiet" onClick=${loadNewer}>Newer</button></div>` : ""}
      </div>
    </div>
    ${atEnd ? "" : html`<button class="jump" onClick=${jump}>↓ ${transcript.version > seenVersion ? "New" : "Newest"}</button>`}
  </div>`;
}

/** Returns a value that changes when something that is drawn with these rows has changed: live output, answers. */
/** @param {any[]} rows @param {import("../transcript.js").Transcript} transcript @param {any} live */
function besideOf(rows, transcript, live) {
  const tools = rows.filter((row) => row.kind === "tool");
  const asks = tools.flatMap((row) => row.asks ?? []).map((id) => transcript.find(id)?.rev ?? "").join();
  const output = live?.length ? tools.map((row) => live.find((/** @type {any} */ entry) => entry.toolCallId === row.toolCallId)?.bytes ?? "").join() : "";
  return `${asks}/${output}`;
}

/** Opens the row of the address, loading the page around it. */
/** @param {import("../transcript.js").Transcript} transcript @param {string | undefined} row @param {any} scroller @param {any} following @param {(value: boolean) => void} setAtEnd */
function useRowLink(transcript, row, scroller, following, setAtEnd) {
  const done = useRef("");
  useEffect(() => {
    if (!row || !transcript.loaded || done.current === row) return;
    done.current = row;
    const show = () => requestAnimationFrame(() => {
      const target = scroller.current?.querySelector(`[data-row="${CSS.escape(row)}"], #${CSS.escape(`row-${row}`)}`);
      if (!target) return;
      following.current = false;
      setAtEnd(false);
      target.scrollIntoView({ block: "center" });
    });
    if (transcript.find(row)) return void show();
    attempt(api.get(`sessions/${transcript.session}/rows`, { around: row, limit: 100 })).then((page) => {
      if (!page) return;
      following.current = false;
      transcript.showPage(page);
      changed();
      setTimeout(show, 50);
    });
  }, [row, transcript.loaded]);
}

/** Tells the host that a person has seen the session: the window has the focus and the end is in view, for a second. */
/** @param {import("../transcript.js").Transcript} transcript @param {{ current: boolean }} following */
function useSeen(transcript, following) {
  useEffect(() => {
    let since = 0, lastSent = "", lastAt = 0;
    const timer = setInterval(() => {
      const looks = document.visibilityState === "visible" && document.hasFocus() && following.current && transcript.loaded;
      if (!looks) since = 0;
      else if (!since) since = Date.now();
      const upTo = transcript.position?.replace(/^f\d+\./, "") ?? transcript.asOf;
      const unread = (transcript.state?.session ?? app.sessions.get(transcript.session))?.attention?.unread;
      if (!since || Date.now() - since < SEEN_AFTER_MS || !unread || !upTo || upTo === lastSent || Date.now() - lastAt < SEEN_INTERVAL_MS) return;
      [lastSent, lastAt] = [upTo, Date.now()];
      api.call("PUT", `sessions/${transcript.session}/seen`, { body: { upTo } }).catch(() => {});
    }, 500);
    return () => clearInterval(timer);
  }, [transcript]);
}
