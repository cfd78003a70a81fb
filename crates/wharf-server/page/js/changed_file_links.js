// @ts-check
/** Paths in the agent's text that are among the changed files of the session become links to their diffs. */
import { useEffect, useState } from "preact/hooks";
import * as api from "./api.js";
import { changesLink } from "./router.js";

/** The text settles before it is looked through. */
const PAUSE_MS = 250;

/** @param {import("./transcript.js").Transcript} transcript @param {{ current: HTMLElement | null }} content */
export function useChangedFileLinks(transcript, content) {
  const [paths, setPaths] = useState(/** @type {Set<string>} */ (new Set()));
  const outcome = transcript.state?.session?.turn;
  useEffect(() => {
    if (!transcript.loaded || outcome !== "idle") return undefined;
    let stale = false;
    api.get(`sessions/${transcript.session}/changes`).then(
      (list) => {
        if (!stale) setPaths(new Set(list.files.map((file) => file.path)));
      },
      () => {},
    );
    return () => {
      stale = true;
    };
  }, [transcript.loaded, outcome]);
  useEffect(() => {
    if (!paths.size) return undefined;
    const timer = setTimeout(() => {
      if (content.current) linkPaths(content.current, paths, transcript.session);
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [paths, transcript.rows, transcript.version]);
}

/** Only texts that have ended are changed: the others still grow. @param {HTMLElement} root @param {Set<string>} paths @param {string} session */
function linkPaths(root, paths, session) {
  for (const code of root.querySelectorAll(".markdown.complete code:not(pre code, .path-link code)")) {
    const path = (code.textContent ?? "").replace(/^\.\//, "").replace(/:\d+(:\d+)?$/, "");
    if (!paths.has(path) || code.closest("a")) continue;
    const link = document.createElement("a");
    link.className = "path-link";
    link.href = changesLink(session, path);
    link.title = "Show the changes of this file";
    code.replaceWith(link);
    link.appendChild(code);
  }
}
