// @ts-check
/** One session: its head, its transcript, its questions, its queue, the composer. */
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "../api.js";
import { sayNow, sayPolitely } from "../announce.js";
import { money, placeOf, plural, shortNumber, titleOf } from "../format.js";
import { html } from "../html.js";
import { changesLink, go, sessionLink } from "../router.js";
import { app, attempt, mayControl, useApp } from "../store.js";
import { plainText } from "../text.js";
import { AskDock, askTitle } from "./ask.js";
import { Composer } from "./composer.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icon.js";
import { Outbox } from "./outbox.js";
import { copyText, saveBlob } from "./parts.js";
import { Queue } from "./queue.js";
import { Plan } from "./rows.js";
import { FindInSession } from "./search.js";
import { TranscriptView } from "./transcript_view.js";

/** @import { Session as SessionInfo, SessionPatch, SessionSettings, SettingChoice, SettingsChange } from "contract" */
/** @import { EventOf } from "../html.js" */
/** @import { Transcript } from "../transcript.js" */

/** @param {{ id: string, row?: string }} props */
export function Session({ id, row }) {
  useApp();
  const transcript = app.transcript?.session === id ? app.transcript : null;
  const info = transcript?.state?.session ?? app.sessions.get(id);
  useAnnouncements(transcript, info);
  const [finding, setFinding] = useState(false);
  useEffect(() => {
    const open = () => setFinding(true);
    addEventListener("wharf-find", open);
    return () => removeEventListener("wharf-find", open);
  }, []);
  if (app.sessionFault)
    return html`<div class="centre"><p>${app.sessionFault}</p><p><a href="#/">All sessions</a></p></div>`;
  if (!transcript) return html`<div class="centre faint">Loading…</div>`;
  if (transcript.gone)
    return html`<div class="centre"><p>This session was deleted with its history.</p><p><a href="#/">All sessions</a></p></div>`;
  return html`<div class="session">
    <${Head} info=${info} transcript=${transcript} onFind=${() => setFinding(true)} />
    ${finding ? html`<${FindInSession} session=${id} onClose=${() => setFinding(false)} />` : ""}
    <${TranscriptView} key=${id} transcript=${transcript} row=${row} />
    <div class="below">
      <${PinnedPlan} transcript=${transcript} />
      <${AskDock} key=${`ask-${id}`} transcript=${transcript} row=${row} />
      <${Queue} transcript=${transcript} />
      ${info?.paused ? html`<p class="warning">The agent is held: the log cannot be written (${info.paused}).</p>` : ""}
      <${Outbox} session=${id} />
      <${Composer} key=${`composer-${id}`} transcript=${transcript} />
    </div>
  </div>`;
}

/** @param {{ info: SessionInfo | undefined, transcript: Transcript, onFind: () => void }} props */
function Head({ info, transcript, onFind }) {
  const settings = transcript.state?.settings;
  const clients = transcript.state?.clients ?? [];
  const { used, size } = info?.context ?? { used: 0, size: 0 };
  const context = size ? `${Math.round((100 * used) / size)} %` : "";
  return html`<header class="session-head">
    <a class="back icon-button" href="#/" aria-label="All sessions"><${Icon} name="back" /></a>
    <div class="session-title"><h1>${info ? plainText(titleOf(info)) : "…"}</h1>
      <p class="faint">${info ? `${placeOf(info)} · ${info.adapterSlug}` : ""}${info?.status && info.status !== "running" ? ` · ${info.status}` : ""}${info?.usage?.cost ? ` · ${money(info.usage.cost)}` : ""}</p></div>
    <div class="session-tools">
      <${SettingSelects} settings=${settings} session=${transcript.session} />
      ${context ? html`<span class="context faint" title=${`${shortNumber(used)} of ${shortNumber(size)} tokens of context`}>${context}</span>` : ""}
      ${clients.length ? html`<span class="attached faint" title=${clients.map((client) => `${plainText(client.name ?? "a client")} (${client.role}${client.person ? `, ${client.person}` : ""})`).join("\n")}><${Icon} name="people" />${clients.length}<span class="hidden-text"> attached</span></span>` : ""}
      <${Menu} info=${info} session=${transcript.session} onFind=${onFind} />
    </div>
  </header>`;
}

/** @param {{ settings: SessionSettings | undefined, session: string }} props */
function SettingSelects({ settings, session }) {
  if (!settings || !mayControl()) return "";
  const change = (/** @type {SettingsChange} */ body) =>
    attempt(api.call("PATCH", `sessions/${session}/settings`, { body }));
  const select = (
    /** @type {string} */ name,
    /** @type {SettingChoice} */ choice,
    /** @type {(value: string) => SettingsChange} */ toBody,
  ) => html`<label class="setting"><span class="hidden-text">${name}</span>
    <select title=${name} value=${choice.current} onChange=${(/** @type {EventOf<HTMLSelectElement>} */ event) => change(toBody(event.target.value))}>
      ${choice.all.map((value) => html`<option value=${value.id} selected=${value.id === choice.current}>${plainText(value.name)}</option>`)}</select></label>`;
  return html`${settings.modes ? select("Mode", settings.modes, (mode) => ({ mode })) : ""}${settings.models ? select("Model", settings.models, (model) => ({ model })) : ""}`;
}

/** @param {{ info: SessionInfo | undefined, session: string, onFind: () => void }} props */
function Menu({ info, session, onFind }) {
  const [open, setOpen] = useState(false);
  const [dialog, setDialog] = useState("");
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!open) return undefined;
    const close = (/** @type {Event} */ event) => {
      if (
        event instanceof KeyboardEvent
          ? event.key === "Escape"
          : !frame.current?.contains(/** @type {Node} */ (event.target))
      )
        setOpen(false);
    };
    addEventListener("pointerdown", close);
    addEventListener("keydown", close);
    return () => {
      removeEventListener("pointerdown", close);
      removeEventListener("keydown", close);
    };
  }, [open]);
  const act = (/** @type {() => unknown} */ work) => () => {
    setOpen(false);
    work();
  };
  const patch = (/** @type {SessionPatch} */ body) => attempt(api.call("PATCH", `sessions/${session}`, { body }));
  const exportText = async () => {
    const response = await attempt(api.send("GET", `sessions/${session}/export?format=md`));
    if (response?.ok) saveBlob(await response.blob(), `${info ? titleOf(info) : session}.md`);
  };
  const copyLink = () => copyText(new URL(sessionLink(session), document.baseURI).href, "The link");
  const fork = async () => {
    const made = await attempt(api.post(`sessions/${session}/fork`, {}));
    if (made) go(sessionLink(made.id));
  };
  const alive = ["starting", "running"].includes(info?.status ?? "");
  const muted = info?.attention?.muted;
  return html`<div class="menu" ref=${frame}>
    <button class="icon-button" aria-haspopup="true" aria-expanded=${open} aria-label="More" onClick=${() => setOpen(!open)}><${Icon} name="menu" /></button>
    ${
      open
        ? html`<div class="menu-list">
      <button onClick=${act(() => go(changesLink(session)))}>Changed files</button>
      <button onClick=${act(onFind)}>Find in session</button>
      <button onClick=${act(() => attempt(api.call("PUT", `sessions/${session}/mute`, { body: { muted: !muted } })))}>${muted ? "Unmute" : "Mute"}</button>
      <button onClick=${act(copyLink)}>Copy link</button>
      <button onClick=${act(exportText)}>Export as Markdown</button>
      ${
        mayControl()
          ? html`<button onClick=${act(() => setDialog("rename"))}>Rename</button>
        <button onClick=${act(() => setDialog("options"))}>Agent options</button>
        <button onClick=${act(() => patch({ archived: !info?.archived }))}>${info?.archived ? "Take out of the archive" : "Archive"}</button>
        ${info?.forkable ? html`<button onClick=${act(fork)}>Fork</button>` : ""}
        ${alive ? html`<button class="danger" onClick=${act(() => setDialog("kill"))}>End the agent</button>` : html`<button onClick=${act(() => attempt(api.post(`sessions/${session}/resume`)))}>Bring back</button>`}`
          : ""
      }
    </div>`
        : ""
    }
    ${dialog === "rename" && info ? html`<${Rename} info=${info} onSave=${(/** @type {string} */ title) => patch({ title: title || null })} onClose=${() => setDialog("")} />` : ""}
    ${dialog === "options" ? html`<${AgentOptions} session=${session} onClose=${() => setDialog("")} />` : ""}
    ${
      dialog === "kill"
        ? html`<${Dialog} title="End the agent?" onClose=${() => setDialog("")}><p>The running turn ends. The history stays, and the session can be brought back.</p>
      <div class="ask-options"><button class="danger" onClick=${() => {
        setDialog("");
        attempt(api.post(`sessions/${session}/kill`));
      }}>End it</button><button onClick=${() => setDialog("")}>Keep it</button></div><//>`
        : ""
    }
  </div>`;
}

/** @param {{ info: SessionInfo, onSave: (title: string) => void, onClose: () => void }} props */
function Rename({ info, onSave, onClose }) {
  const [title, setTitle] = useState(titleOf(info));
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    onSave(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("title")?.toString().trim() ?? "");
    onClose();
  };
  return html`<${Dialog} title="Rename" onClose=${onClose} heading=${false}><form onSubmit=${submit}><label>Title<input data-first name="title" value=${title} maxlength="200" onInput=${(/** @type {EventOf<HTMLInputElement>} */ event) => setTitle(event.target.value)} /></label>
    <p class="faint">An empty title takes the agent's.</p><div class="ask-options"><button type="submit">Save</button></div></form><//>`;
}

/** All options of the agent. @param {{ session: string, onClose: () => void }} props */
function AgentOptions({ session, onClose }) {
  const settings = app.transcript?.state?.settings;
  const change = (/** @type {string} */ id, /** @type {string | boolean} */ value) =>
    attempt(api.call("PATCH", `sessions/${session}/settings`, { body: { options: { [id]: value } } }));
  const options = settings?.options ?? [];
  return html`<${Dialog} title="Agent options" onClose=${onClose}>
    ${
      options.length
        ? options.map(
            (
              option,
            ) => html`<label class="option">${plainText(option.name)} <span class="faint">${plainText(option.description ?? "")}</span>
      ${
        option.type === "boolean"
          ? html`<input type="checkbox" checked=${option.current === true} onChange=${(/** @type {EventOf<HTMLInputElement>} */ event) => change(option.id, event.target.checked)} />`
          : html`<select value=${option.current} onChange=${(/** @type {EventOf<HTMLSelectElement>} */ event) => change(option.id, event.target.value)}>${option.all.map((value) => html`<option value=${value.id} selected=${value.id === option.current}>${plainText(value.name)}</option>`)}</select>`
      }</label>`,
          )
        : html`<p class="faint">This agent has no options.</p>`
    }
  <//>`;
}

/** The plan in one line while it is followed. @param {{ transcript: Transcript }} props */
function PinnedPlan({ transcript }) {
  const [open, setOpen] = useState(false);
  const plan = transcript.find(transcript.state?.plan);
  const running = transcript.state?.session?.turn !== "idle";
  if (plan?.kind !== "plan" || !running || plan.done === plan.total) return "";
  const current = plan.entries.find((entry) => entry.status === "in_progress");
  return html`<section class="pinned-plan" aria-label="Plan"><button class="queue-head" aria-expanded=${open} onClick=${() => setOpen(!open)}>Plan ${plan.done}/${plan.total}${current ? html` <span class="faint">▸ ${plainText(current.text)}</span>` : ""}</button>
    ${open ? html`<${Plan} row=${plan} />` : ""}</section>`;
}

/** Tells a screen reader when the agent works, is done, has failed or asks. */
/** @param {Transcript | null} transcript @param {SessionInfo | undefined} info */
function useAnnouncements(transcript, info) {
  const before = useRef({ state: "", asks: 0 });
  const state = info?.attention?.state ?? "";
  const asks = transcript?.state?.asks ?? [];
  useEffect(() => {
    if (before.current.state && state !== before.current.state) {
      if (state === "working") sayPolitely("Working");
      if (state === "failed") sayPolitely("Failed");
      if (state === "finished" || (state === "quiet" && before.current.state === "working")) sayPolitely("Finished");
    }
    if (asks.length > before.current.asks) {
      const ask = transcript?.find(asks.at(-1));
      sayNow(
        ask?.kind === "ask"
          ? `${askTitle(ask.subject)}: ${ask.subject.command ?? ask.subject.title}. ${plural(asks.length, "question")} open.`
          : "The agent asks something.",
      );
    }
    before.current = { state, asks: asks.length };
  }, [state, asks.length]);
}
