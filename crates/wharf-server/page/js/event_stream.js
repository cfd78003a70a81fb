// @ts-check
/**
 * Reads server-sent events with `fetch`: the page's key goes along, and statuses can be seen. Where a stream cannot be held, the
 * same events come by polls: responses that end.
 */
import { send, toError, CallError } from "./api.js";
import { makeEventParser } from "./event_parser.js";
import { noteHeard, probeHost } from "./host_watch.js";
import { takeSlot } from "./stream_slots.js";

/** @import { SessionStreamEvent } from "contract" */

/** A stream without a beat for so long is dead. The host sends one every ten seconds. */
const SILENCE_MS = 25_000;
/** The host sends the first event at once: without one for so long, something on the way may hold it back. */
const FIRST_EVENT_MS = 10_000;
/** A stream that brings no beat twice in a row, or nothing at all once, is held back, unless a poll fails too. */
const MAX_SILENT_STREAMS = 2;
/** Bytes that come so long after the first ones are no longer those of the beginning: the stream flows. */
const FLOWING_MS = 5000;
const MAX_DELAY_MS = 30_000;
/** The wait of a poll where streams are held back, and the pause after it. */
const POLL_WAIT_MS = 10_000;
const POLL_PAUSE_MS = 500;
/** Where streams are held back, a stream is tried again after so long, and has so long for its next beat. */
const PROBE_INTERVAL_MS = 300_000;
const PROBE_SILENCE_MS = 12_000;
/** The pause between two polls of a tab without a connection of its own: of one that is seen, and of one that is not. */
const BRIEF_PAUSE_MS = 1500;
const HIDDEN_PAUSE_MS = 10_000;

/** What is known of the way to the host. It outlives the stream of one session. */
const way = { isHeldBack: false, probedAt: 0 };

/**
 * Follows a stream until it is closed, across reconnects.
 * @param {{ path: (waitMs: number | null) => string, headers?: () => Record<string, string>,
 *   onEvent: (event: SessionStreamEvent, id: string | null) => void,
 *   onState: (state: "connecting" | "open" | "lost", error?: CallError) => void,
 *   onHeldBack: (isHeldBack: boolean) => void,
 *   onFatal: (error: CallError) => void }} options
 */
export function followStream(options) {
  let closed = false;
  let failures = 0;
  let silentStreams = 0;
  let isBrief = false;
  /** False until a poll has told all that there was. */
  let mayWait = false;
  let abort = new AbortController();
  /** @type {(() => void) | null} */
  let wakeUp = null;

  /**
   * Reads one response to its end. Returns true if it was cut for its silence.
   * @param {number | null} waitMs the wait of a poll, or null for a stream
   */
  async function readOnce(waitMs) {
    const own = (abort = new AbortController());
    let [isSilent, firstAt] = [false, 0];
    const cutLater = (/** @type {number} */ delay) =>
      setTimeout(() => {
        isSilent = true;
        own.abort();
      }, delay);
    const silence = way.isHeldBack && waitMs === null ? PROBE_SILENCE_MS : SILENCE_MS;
    let timer = cutLater(waitMs === null ? FIRST_EVENT_MS : waitMs + SILENCE_MS);
    try {
      const response = await send("GET", options.path(waitMs), {
        headers: options.headers?.(),
        signal: own.signal,
        mayWait: Boolean(waitMs),
      });
      if (!response.ok || !response.body) throw await toError(response);
      options.onState("open");
      const parse = makeEventParser((event, data, id) => {
        failures = 0;
        options.onEvent(/** @type {SessionStreamEvent} */ ({ event, data: JSON.parse(data) }), id);
      });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done || closed) return false;
        noteHeard();
        firstAt ||= Date.now();
        if (waitMs === null && Date.now() - firstAt >= FLOWING_MS) setHeldBack(false);
        clearTimeout(timer);
        timer = cutLater(silence);
        parse(value);
      }
    } catch (error) {
      // Only where the host answers is it the way that holds the stream back.
      if (!isSilent || !(await probeHost())) throw error;
      silentStreams += firstAt ? 1 : MAX_SILENT_STREAMS;
      return true;
    } finally {
      clearTimeout(timer);
    }
  }

  /** @param {boolean} now */
  function setHeldBack(now) {
    silentStreams = 0;
    if (now === way.isHeldBack) return;
    way.isHeldBack = now;
    options.onHeldBack(now);
  }

  /** Reads a poll. If it succeeds where streams were silent, something holds streams back. */
  async function readPoll() {
    const begin = Date.now();
    const waitMs = mayWait && !isBrief ? POLL_WAIT_MS : 0;
    if (await readOnce(waitMs)) throw new CallError(0, "unreachable", "The host does not answer.");
    // A poll that ends early had news, and there may be more of them.
    mayWait = waitMs === 0 || Date.now() - begin >= waitMs - 1000;
    if (!isBrief) setHeldBack(true);
    failures = 0;
  }

  /** Reads the stream, or a poll where a stream cannot be had. Returns the pause before the next one; null if the stream has ended. */
  async function readNext() {
    isBrief = !takeSlot();
    const isProbe = way.isHeldBack && Date.now() - way.probedAt >= PROBE_INTERVAL_MS;
    if (isBrief || (!isProbe && (way.isHeldBack || silentStreams >= MAX_SILENT_STREAMS))) {
      await readPoll();
      return !isBrief ? POLL_PAUSE_MS : document.visibilityState === "hidden" ? HIDDEN_PAUSE_MS : BRIEF_PAUSE_MS;
    }
    way.probedAt = Date.now();
    return (await readOnce(null)) ? 0 : null;
  }

  async function run() {
    while (!closed) {
      options.onState("connecting");
      let error;
      /** @type {number | null} */
      let rest = null;
      try {
        rest = await readNext();
      } catch (caught) {
        error = caught instanceof CallError ? caught : undefined;
        silentStreams = 0;
      }
      if (closed) return;
      if (rest !== null) {
        await pause(rest);
        continue;
      }
      if (error && [401, 403, 404].includes(error.status)) return options.onFatal(error);
      failures += 1;
      if (failures > 1 || error) options.onState("lost", error);
      await pause(
        failures === 1
          ? 50
          : Math.min(MAX_DELAY_MS, 500 * 2 ** Math.min(failures - 1, 10)) * (0.7 + 0.6 * Math.random()),
      );
    }
  }

  /** @param {number} delay */
  function pause(delay) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, delay);
      wakeUp = () => {
        clearTimeout(timer);
        resolve(undefined);
      };
    });
  }

  const retryNow = () => {
    if (document.visibilityState === "visible") wakeUp?.();
    // A tab that is not seen any more makes room.
    else if (!isBrief)
      setTimeout(() => {
        if (document.visibilityState === "hidden" && !isBrief) abort.abort();
      }, HIDDEN_PAUSE_MS);
  };
  addEventListener("online", retryNow);
  document.addEventListener("visibilitychange", retryNow);
  run();
  return {
    /** Tries at once if the stream is waiting. */
    retry: () => wakeUp?.(),
    close() {
      closed = true;
      removeEventListener("online", retryNow);
      document.removeEventListener("visibilitychange", retryNow);
      abort.abort();
      wakeUp?.();
    },
  };
}
