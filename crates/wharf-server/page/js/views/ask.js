// @ts-check
/** Questions of agents: what is asked in full, and the answers in the agent's own words. */
import { useEffect, useState } from "preact/hooks";
import * as api from "../api.js";
import { sayPolitely } from "../announce.js";
import { placeOf, plural, titleOf } from "../format.js";
import { html } from "../html.js";
import { safeLink } from "../markdown.js";
import { app, attempt, changed, mayControl, showAnswer, showMessage } from "../store.js";
import { plainText } from "../text.js";
import { Dialog } from "./dialog.js";
import { Diff } from "./diff.js";
import { AskForm } from "./form.js";
import { PlainText } from "./parts.js";

/** @import { AnswerArgs, AskForm as Form, AskOption, AskSubject as Subject, OpenAsk } from "contract" */
/** @import { Transcript } from "../transcript.js" */

/** A tap within this time after a question appeared was meant for the one before. */
const SETTLE_MS = 400;

/** @type {Set<string>} the questions that this page has answered, by session and id */
const answeredHere = new Set();
/** A question that was answered elsewhere says so for so long. */
const GONE_SHOWN_MS = 1200;
/** The width below which the dock shows one line of a question. */
const NARROW = "(max-width: 759px)";

/** @param {Subject | undefined} subject */
export function askTitle(subject) {
  if (subject?.command) return "Wants to run";
  if (subject?.diffs?.length) return "Wants to edit";
  return "Asks";
}

/**
 * The subject, complete: a person must be able to tell "nothing to see" from "not shown".
 * @param {{ subject: Pick<Subject, "title"> & Partial<Subject> }} props
 */
export function AskSubject({ subject }) {
  const hasMore = subject.command || subject.diffs?.length || subject.text || subject.paths?.length;
  return html`<div class="ask-subject">
    ${subject.command ? html`<pre class="command" tabindex="0"><${PlainText} text=${subject.command} /></pre>` : html`<p class="ask-title">${plainText(subject.title)}</p>`}
    ${subject.cwd ? html`<p class="faint">in ${plainText(subject.cwd)}</p>` : ""}
    ${subject.outside?.length ? html`<p class="warning">Outside of the session's directory: ${subject.outside.map(plainText).join(", ")}</p>` : ""}
    ${(subject.diffs ?? []).map((diff) => html`<${Diff} diff=${diff} />`)}
    ${subject.paths?.length && !subject.diffs?.length ? html`<p class="faint">${subject.paths.map(plainText).join(", ")}</p>` : ""}
    ${subject.text ? html`<${PlainText} text=${subject.text} />` : ""}
    ${!hasMore && subject.detailed === false ? html`<p class="faint">The agent sent no details.</p>` : ""}
  </div>`;
}

/**
 * A question that can be answered here: a row, or an entry of the list of open ones.
 * @typedef {{ askId: number, options?: AskOption[], moreOptions?: number, form?: Form | null }} Answerable
 */

/**
 * The answers of one question. Its key is the question, so that every question settles anew.
 * @param {{ session: string, listed?: string, ask: Answerable, onAnswered?: () => void }} props
 *   listed: the session of the list that shows the question
 */
export function AskAnswers({ session, listed, ask, onAnswered }) {
  const [isSettled, setSettled] = useState(false);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(true), SETTLE_MS);
    return () => clearTimeout(timer);
  }, []);
  if (!mayControl()) return html`<p class="faint">You can see this question, but not answer it.</p>`;
  const answer = async (/** @type {AnswerArgs} */ body, name = "Answered") => {
    if (busy || !isSettled) return;
    setBusy(true);
    answeredHere.add(`${session}/${ask.askId}`);
    try {
      await api.post(`sessions/${session}/asks/${ask.askId}`, body);
      sayPolitely("Answered");
      if ((app.sessions.get(listed ?? session)?.attention?.count ?? 0) <= 1) showAnswer(listed ?? session, name);
      onAnswered?.();
    } catch (error) {
      const taken = error instanceof api.CallError && ["already_answered", "unknown_ask"].includes(error.code);
      showMessage(taken ? "The question has been answered elsewhere." : /** @type {Error} */ (error).message);
      if (taken) return onAnswered?.();
      answeredHere.delete(`${session}/${ask.askId}`);
      setBusy(false);
    }
  };
  if (ask.form)
    return html`<div data-settled=${isSettled || undefined}><${AskForm} form=${ask.form} busy=${busy} onAnswer=${answer} /></div>`;
  return html`<div class="ask-options" data-settled=${isSettled || undefined}>${(ask.options ?? []).map(
    (option) => html`<button key=${option.optionId} disabled=${busy}
      class=${option.kind === "allow_once" ? "allow allow-once" : option.kind?.startsWith("allow") ? "allow" : "reject"} onClick=${() => answer({ optionId: option.optionId }, plainText(option.name))}>${plainText(option.name)}</button>`,
  )}
    ${ask.moreOptions ? html`<p class="faint">${plural(ask.moreOptions, "more option")} in the terminal: wharf answer</p>` : ""}</div>`;
}

/**
 * The open questions of the session that is shown, above the composer.
 * @param {{ transcript: Transcript, row?: string }} props
 */
export function AskDock({ transcript, row }) {
  const asks = (transcript.state?.asks ?? []).map((id) => transcript.find(id)).filter((found) => found?.kind === "ask");
  const missing = (transcript.state?.asks ?? []).length - asks.length;
  const ask = asks[0];
  // A notification leads to its question: where the dock has no room for all of it, the sheet is opened.
  useEffect(() => {
    if (ask && row === ask.id && matchMedia(NARROW).matches) openAskSheet(transcript.session);
  }, [ask?.askId, row]);
  if (!ask)
    return missing > 0
      ? html`<div class="dock"><button onClick=${() => openAskSheet(transcript.session)}>${plural(missing, "question")} to review</button></div>`
      : "";
  const count = asks.length + missing > 1 ? html`<span class="faint">1 of ${asks.length + missing}</span>` : "";
  return html`<section class="dock" aria-label="Question of the agent">
    <header class="dock-head"><h2><span class="needs-sign" aria-hidden="true">?</span> ${askTitle(ask.subject)}</h2>${count}
      <button class="review" onClick=${() => openAskSheet(transcript.session)}>Review</button></header>
    <div class="dock-subject"><${AskSubject} subject=${ask.subject} /></div>
    <div class="dock-line">${plainText(ask.subject.command ?? ask.subject.title)}</div>
    <div class="dock-answers"><${AskAnswers} key=${ask.askId} session=${transcript.session} ask=${ask} /></div>
  </section>`;
}

/** @type {string | null} */
let sheetSession = null;

/** Opens the questions of a session over the page. @param {string} session */
export function openAskSheet(session) {
  sheetSession = session;
  changed();
}

/** The sheet that is open, if one is. */
export function OpenAskSheet() {
  if (!sheetSession) return "";
  return html`<${AskSheet} key=${sheetSession} session=${sheetSession} onClose=${() => {
    sheetSession = null;
    changed();
  }} />`;
}

/** The questions of a session one after the other, read from the host. @param {{ session: string, onClose: () => void }} props */
function AskSheet({ session, onClose }) {
  const [asks, setAsks] = useState(/** @type {OpenAsk[] | null} */ (null));
  const [gone, setGone] = useState("");
  const info = app.sessions.get(session);
  const count = info?.attention?.count ?? 0;
  const asker = info?.attention?.via ?? session;
  useEffect(() => {
    let closed = false;
    attempt(api.get(`sessions/${asker}/asks`)).then((answer) => {
      if (closed || !answer) return;
      const isGone = asks?.length && !answer.asks.some((ask) => ask.askId === asks[0].askId);
      if (isGone && !answeredHere.has(`${asker}/${asks[0].askId}`)) {
        setGone("This question has been answered elsewhere.");
        setTimeout(() => {
          if (!closed) next(answer.asks);
        }, GONE_SHOWN_MS);
      } else next(answer.asks);
    });
    const next = (/** @type {OpenAsk[]} */ list) => {
      setGone("");
      setAsks(list);
      if (!list.length) onClose();
    };
    return () => {
      closed = true;
    };
  }, [count, info?.lastSeq, asker]);
  const ask = asks?.[0];
  const title = ask ? askTitle(ask.subject) : "Question";
  return html`<${Dialog} title=${title} onClose=${onClose} class="sheet">
    ${info ? html`<p class="faint sheet-place">${placeOf(info)} · ${plainText(titleOf(info))}${asks && asks.length > 1 ? ` · 1 of ${asks.length}` : ""}</p>` : ""}
    ${
      ask
        ? html`<div class="sheet-subject"><${AskSubject} subject=${ask.subject ?? { title: ask.toolCall?.title ?? ask.params?.message ?? "" }} /></div>
      ${gone ? html`<p class="warning" role="alert">${gone}</p>` : html`<${AskAnswers} key=${ask.askId} session=${asker} listed=${session} ask=${{ ...ask, form: toForm(ask) }} onAnswered=${() => setAsks((asks ?? []).slice(1))} />`}`
        : html`<p class="faint">Loading…</p>`
    }
    ${asks && !ask && !gone ? html`<p class="faint">There is no open question.</p>` : ""}
  <//>`;
}

/** @param {OpenAsk} ask @returns {Form | null} */
function toForm(ask) {
  if (ask.kind !== "elicitation") return null;
  const { requestedSchema, url } = /** @type {{ requestedSchema?: unknown, url?: string }} */ (ask.params ?? {});
  return { schema: requestedSchema ?? null, url: url && safeLink(url) };
}
