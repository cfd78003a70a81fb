// @ts-check
/** Search over the transcripts of all sessions, or of one. */
import { useEffect, useState } from "preact/hooks";
import * as api from "../api.js";
import { age, plural } from "../format.js";
import { html } from "../html.js";
import { sessionLink } from "../router.js";
import { plainText } from "../text.js";
import { Icon } from "./icon.js";

/** @import { SearchPage } from "contract" */
/** @import { EventOf } from "../html.js" */

const TYPING_PAUSE_MS = 200;

/** @param {string} query @param {string} [session] */
function useHits(query, session) {
  const [found, setFound] = useState(/** @type {SearchPage | null} */ (null));
  const [fault, setFault] = useState("");
  useEffect(() => {
    if (!query.trim()) return setFound(null);
    let stale = false;
    const timer = setTimeout(() => {
      api.get("search", { q: query, session, limit: 50 }).then(
        (page) => {
          if (stale) return;
          setFound(page);
          setFault("");
        },
        (error) => {
          if (!stale) setFault(error.message);
        },
      );
    }, TYPING_PAUSE_MS);
    return () => {
      stale = true;
      clearTimeout(timer);
    };
  }, [query, session]);
  const more = async () => {
    if (!found) return;
    const page = await api.get("search", { q: query, session, limit: 50, cursor: found.nextCursor });
    setFound({ ...page, hits: [...found.hits, ...page.hits] });
  };
  return { found, fault, more };
}

/** @param {{ query: string }} props */
export function Search({ query }) {
  const [text, setText] = useState(query);
  const { found, fault, more } = useHits(text);
  useEffect(() => {
    history.replaceState(null, "", `#/search${api.toQuery({ q: text })}`);
  }, [text]);
  return html`<div class="page"><h1>Search</h1>
    <input type="search" class="search-field" aria-label="Search all sessions" placeholder="Words in prompts, answers, commands, paths" value=${text} autofocus onInput=${(/** @type {EventOf<HTMLInputElement>} */ event) => setText(event.target.value)} />
    <${Hits} found=${found} fault=${fault} more=${more} withSession=${true} /></div>`;
}

/** @param {{ session: string, onClose: () => void }} props */
export function FindInSession({ session, onClose }) {
  const [text, setText] = useState("");
  const { found, fault, more } = useHits(text, session);
  useEffect(() => document.getElementById("find-field")?.focus(), []);
  return html`<section class="find" aria-label="Find in session" onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      onClose();
    }
  }}>
    <div class="find-line"><input id="find-field" type="search" aria-label="Find in session" placeholder="Find in session" value=${text} onInput=${(/** @type {EventOf<HTMLInputElement>} */ event) => setText(event.target.value)} />
      <button class="icon-button" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button></div>
    <${Hits} found=${found} fault=${fault} more=${more} withSession=${false} /></section>`;
}

/** @param {{ found: SearchPage | null, fault: string, more: () => void, withSession: boolean }} props */
function Hits({ found, fault, more, withSession }) {
  if (fault) return html`<p class="warning">${fault}</p>`;
  if (!found) return "";
  return html`<p class="faint" role="status">${found.hits.length ? plural(found.hits.length, "hit") + (found.nextCursor ? " so far" : "") : "Nothing found."}${found.pending ? ` ${plural(found.pending, "session")} not searched yet.` : ""}</p>
    <ul class="hits">${found.hits.map(
      (hit) => html`<li><a href=${sessionLink(hit.session, hit.row)}>
      ${withSession ? html`<strong>${plainText(hit.title ?? hit.session)}</strong> ` : ""}<span class="faint">${hit.kind} · ${age(hit.at)}</span>
      <span class="snippet">${hit.snippet.map((part) => (part.match ? html`<mark>${plainText(part.text)}</mark>` : plainText(part.text)))}</span></a></li>`,
    )}</ul>
    ${found.nextCursor ? html`<button class="quiet" onClick=${more}>Older hits</button>` : ""}`;
}
