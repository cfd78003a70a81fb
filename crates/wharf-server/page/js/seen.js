// @ts-check
/** Tells the host what a person has seen: the window has the focus and the end is in view, for a second. */
import { useEffect } from "preact/hooks";
import * as api from "./api.js";
import { app } from "./store.js";

const LOOK_MS = 1000;
const REPORT_INTERVAL_MS = 2000;

/** @param {import("./transcript.js").Transcript} transcript @param {{ current: boolean }} following */
export function useSeen(transcript, following) {
  useEffect(() => {
    let since = 0,
      lastSent = "",
      lastAt = 0;
    const isLong = () => since > 0 && Date.now() - since >= LOOK_MS;
    const report = () => {
      const upTo = transcript.position?.replace(/^f\d+\./, "") ?? transcript.asOf;
      if (!upTo || upTo === lastSent) return;
      [lastSent, lastAt] = [upTo, Date.now()];
      api.call("PUT", `sessions/${transcript.session}/seen`, { body: { upTo } }).catch(() => {});
    };
    /** A person who leaves in the middle of a turn has seen it up to here. */
    const leave = () => {
      if (isLong() && app.login === "in") report();
      since = 0;
    };
    const look = () => {
      const looks =
        document.visibilityState === "visible" && document.hasFocus() && following.current && transcript.loaded;
      if (!looks) return leave();
      since ||= Date.now();
      const unread = (transcript.state?.session ?? app.sessions.get(transcript.session))?.attention?.unread;
      if (unread && isLong() && Date.now() - lastAt >= REPORT_INTERVAL_MS) report();
    };
    const timer = setInterval(look, 500);
    document.addEventListener("visibilitychange", look);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
      leave();
    };
  }, [transcript]);
}
