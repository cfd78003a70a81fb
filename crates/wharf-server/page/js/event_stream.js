// @ts-check
/** Reads server-sent events with `fetch`: the page's key goes along, and statuses can be seen. */
import { send, toError, CallError } from "./api.js";
import { takeSlot } from "./stream_slots.js";

/** A stream without a beat for so long is dead. The host sends one every ten seconds. */
const SILENCE_MS = 25_000;
const MAX_DELAY_MS = 30_000;
/** A tab without a place for its stream has read what is new when nothing came for so long. */
const BRIEF_SILENCE_MS = 300;
/** The pause between two looks of a tab that is seen, and of one that is not. */
const BRIEF_PAUSE_MS = 1500;
const HIDDEN_PAUSE_MS = 10_000;

/**
 * Splits the text of an event stream into events.
 * @param {(event: string, data: string, id: string | null) => void} onEvent
 */
export function makeEventParser(onEvent) {
  let rest = "";
  let event = "", id = /** @type {string | null} */ (null), data = /** @type {string[]} */ ([]);
  /** @param {string} line */
  const takeLine = (line) => {
    if (line === "") {
      if (data.length) onEvent(event || "message", data.join("\n"), id);
      event = "";
      id = null;
      data = [];
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") event = value;
    else if (field === "data") data.push(value);
    else if (field === "id") id = value;
  };
  return (/** @type {string} */ text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) takeLine(line.endsWith("\r") ? line.slice(0, -1) : line);
  };
}

/**
 * Follows a stream until it is closed, across reconnects.
 * @param {{ path: () => string, headers?: () => Record<string, string>,
 *   onEvent: (event: string, data: any, id: string | null) => void,
 *   onState: (state: "connecting" | "open" | "lost", error?: CallError) => void,
 *   onFatal: (error: CallError) => void }} options
 */
export function followStream(options) {
  let closed = false;
  let failures = 0;
  let abort = new AbortController();
  let isBrief = false;
  /** @type {(() => void) | null} */
  let wakeUp = null;

  async function readOnce() {
    abort = new AbortController();
    let silence = SILENCE_MS;
    let timer = setTimeout(() => abort.abort(), SILENCE_MS);
    isBrief = !takeSlot();
    try {
      const response = await send("GET", options.path(), { headers: options.headers?.(), signal: abort.signal });
      if (!response.ok || !response.body) throw await toError(response);
      options.onState("open");
      const parse = makeEventParser((event, data, id) => {
        failures = 0;
        options.onEvent(event, JSON.parse(data), id);
      });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done || closed) return;
        clearTimeout(timer);
        // The host sends what is new at once: silence after it means that there is no more.
        silence = isBrief ? BRIEF_SILENCE_MS : SILENCE_MS;
        timer = setTimeout(() => abort.abort(), silence);
        parse(value);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  async function run() {
    while (!closed) {
      options.onState("connecting");
      let error;
      try {
        await readOnce();
      } catch (caught) {
        error = caught instanceof CallError ? caught : undefined;
      }
      if (closed) return;
      if (isBrief && !error && failures === 0) {
        await pause(document.visibilityState === "hidden" ? HIDDEN_PAUSE_MS : BRIEF_PAUSE_MS);
        continue;
      }
      if (error && [401, 403, 404].includes(error.status)) return options.onFatal(error);
      failures += 1;
      if (failures > 1 || error) options.onState("lost", error);
      await pause(failures === 1 ? 50 : Math.min(MAX_DELAY_MS, 500 * 2 ** Math.min(failures - 1, 10)) * (0.7 + 0.6 * Math.random()));
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
    else if (!isBrief) setTimeout(() => { if (document.visibilityState === "hidden" && !isBrief) abort.abort(); }, HIDDEN_PAUSE_MS);
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
