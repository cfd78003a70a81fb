// @ts-check
/** Starting a session: where, with which agent, and the first prompt. */
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "../api.js";
import { readDraft, writeDraft } from "../drafts.js";
import { age, baseName } from "../format.js";
import { html } from "../html.js";
import { scaleImage } from "../images.js";
import { go, sessionLink } from "../router.js";
import { app, mayControl, showMessage } from "../store.js";
import { plainText } from "../text.js";
import { enterSends } from "./composer.js";
import { Icon } from "./icon.js";

/** @import { Adapter, Places, SpawnArgs, Upload } from "contract" */
/** @import { EventOf } from "../html.js" */

const DRAFT = "new";
/** Commands of the demo agent that show something at once. */
const DEMOS = [
  ["Take the tour", "tour"],
  ["Let it ask me", "edit"],
  ["A long answer", "slow"],
];

/** @param {{ directory?: string }} props */
export function Start({ directory }) {
  const [places, setPlaces] = useState(/** @type {Places | null} */ (null));
  const [agents, setAgents] = useState(/** @type {Adapter[] | null} */ (null));
  const [where, setWhere] = useState(directory ?? "");
  const [agent, setAgent] = useState("");
  const [mode, setMode] = useState("");
  const [text, setText] = useState(readDraft(DRAFT));
  const [images, setImages] = useState(/** @type {{ blob: Blob, name: string }[]} */ ([]));
  const [busy, setBusy] = useState(false);
  /** The last try: after a lost answer the same session is asked for again, not another one. */
  const lastTry = useRef({ wanted: "", key: "" });

  useEffect(() => {
    let closed = false;
    Promise.all([api.get("places"), api.get("adapters")])
      .then(([list, known]) => {
        if (closed) return;
        setPlaces(list);
        setAgents(known.adapters);
        const active = list.workspaces.find((one) => one.active) ?? list.workspaces[0];
        const first = list.recent[0];
        setWhere((value) => value || first?.cwd || active?.path || "");
        const usable = known.adapters.filter((one) => one.installed);
        const find = (/** @type {(one: Adapter) => boolean} */ fits) => usable.find(fits);
        // Without the setting `default_agent` the demo is the host's default.
        const fallback =
          find((one) => one.default && one.slug !== "demo") ??
          find((one) => one.login === "yes" && one.slug !== "demo") ??
          find((one) => one.source === "config" && one.login !== "no") ??
          find((one) => one.slug === "demo") ??
          usable[0];
        setAgent(first?.adapterSlug ?? fallback?.slug ?? "");
      })
      .catch((error) => showMessage(error.message));
    return () => {
      closed = true;
    };
  }, []);

  if (!mayControl()) return html`<div class="centre faint">You can look at sessions, not start them.</div>`;
  const change = (/** @type {string} */ value) => {
    setText(value);
    writeDraft(DRAFT, value);
  };
  const start = async (/** @type {{ agent: string, text: string }} */ wanted) => {
    if (busy) return;
    setBusy(true);
    try {
      const workspace = places?.workspaces.find((one) => one.path === where);
      const place = workspace ? { workspaceSlug: workspace.slug } : where ? { cwd: where } : {};
      const withImages = images.length > 0;
      /** @type {SpawnArgs} */
      const body = {
        adapter: wanted.agent,
        ...place,
        ...(mode && wanted.agent === agent ? { mode } : {}),
        ...(wanted.text.trim() && !withImages ? { prompt: wanted.text } : {}),
      };
      if (lastTry.current.wanted !== JSON.stringify(body))
        lastTry.current = { wanted: JSON.stringify(body), key: api.randomText() };
      const session = await api.post("sessions/agent", body, {
        "Idempotency-Key": lastTry.current.key,
        ...(withImages ? {} : { Prefer: "respond-async" }),
      });
      lastTry.current = { wanted: "", key: "" };
      if (withImages) await sendWithImages(session.id, wanted.text, images);
      change("");
      go(sessionLink(session.id));
    } catch (error) {
      if (/** @type {api.CallError} */ (error).status) lastTry.current = { wanted: "", key: "" };
      showMessage(/** @type {Error} */ (error).message);
    }
    setBusy(false);
  };
  const known = agents?.find((one) => one.slug === agent);
  const others = (agents ?? []).filter((one) => !one.installed);
  const isFirst = app.listed && app.sessions.size === 0;
  return html`<div class="page start"><h1>${isFirst ? "What should an agent do?" : "New session"}</h1>
    <form onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      start({ agent, text });
    }}>
      <label class="hidden-text" for="first-prompt">First prompt</label>
      <textarea id="first-prompt" rows="4" placeholder="What should the agent do?" value=${text} onInput=${(/** @type {EventOf<HTMLTextAreaElement>} */ event) => change(event.target.value)} autofocus
        onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing && (enterSends() || event.ctrlKey)) {
            event.preventDefault();
            start({ agent, text });
          }
        }}></textarea>
      <div class="start-row">
        <label>Where<input list="places" value=${where} placeholder="/path/to/project" onInput=${(/** @type {EventOf<HTMLInputElement>} */ event) => setWhere(event.target.value)} /></label>
        <datalist id="places">${(places?.workspaces ?? []).map((one) => html`<option value=${one.path}>${one.slug}</option>`)}${(places?.recent ?? []).map((one) => html`<option value=${one.cwd}></option>`)}</datalist>
        <label>Agent<select value=${agent} onChange=${(/** @type {EventOf<HTMLSelectElement>} */ event) => {
          setAgent(event.target.value);
          setMode("");
        }}>${(agents ?? []).filter((one) => one.installed).map((one) => html`<option value=${one.slug} selected=${one.slug === agent}>${one.name}${one.login === "no" ? " (not signed in)" : ""}</option>`)}</select></label>
        ${known?.modes?.length ? html`<label>Mode<select value=${mode} onChange=${(/** @type {EventOf<HTMLSelectElement>} */ event) => setMode(event.target.value)}><option value="">the agent's own</option>${known.modes.map((one) => html`<option value=${one.id}>${one.id}</option>`)}</select></label>` : ""}
      </div>
      ${known?.login === "no" ? html`<p class="warning">${known.name} is not signed in. In a terminal: <code>wharf login ${known.slug}</code></p>` : ""}
      <div class="start-row"><label class="chip attach"><${Icon} name="image" /> Image<input type="file" accept="image/*" multiple class="hidden-text" onChange=${async (
        /** @type {EventOf<HTMLInputElement>} */ event,
      ) => {
        const added = await Promise.all(
          [...(event.target.files ?? [])].map(async (file) => ({ blob: await scaleImage(file), name: file.name })),
        );
        setImages([...images, ...added]);
      }} /></label>${images.map((image) => html`<button type="button" class="chip" onClick=${() => setImages(images.filter((one) => one !== image))}>${image.name} ✕</button>`)}
        <button type="submit" class="send" disabled=${busy || !agent}>${busy ? "Starting…" : "Start"}</button></div>
    </form>
    ${
      places?.recent?.length
        ? html`<h2>Recent places</h2><ul class="places">${places.recent.slice(0, 8).map(
            (one) => html`<li><button class=${where === one.cwd ? "current" : ""} onClick=${() => {
              setWhere(one.cwd);
              setAgent(one.adapterSlug);
              document.getElementById("first-prompt")?.focus();
            }}>
      <strong>${plainText(baseName(one.cwd))}</strong> <span class="faint">${plainText(one.cwd)} · ${one.adapterSlug} · ${age(one.lastUsedAt)}</span></button></li>`,
          )}</ul>`
        : ""
    }
    ${(agents ?? []).some((one) => one.slug === "demo") ? html`<h2>Try the demo agent</h2><p class="faint">It needs no account and no network.</p><p class="demos">${DEMOS.map(([name, prompt]) => html`<button onClick=${() => start({ agent: "demo", text: prompt })}>${name}</button>`)}</p>` : ""}
    ${others.length ? html`<details class="agents"><summary>${others.length} more agents can be installed</summary><ul>${others.map((one) => html`<li><strong>${one.name}</strong> <code>${plainText(one.installHint ?? "")}</code></li>`)}</ul></details>` : ""}
  </div>`;
}

/** @param {string} session @param {string} text @param {{ blob: Blob, name: string }[]} images */
async function sendWithImages(session, text, images) {
  /** @type {Upload[]} */
  const uploads = [];
  for (const image of images)
    uploads.push(
      await api.call("POST", `sessions/${session}/uploads${api.toQuery({ name: image.name })}`, {
        raw: image.blob,
        headers: { "Content-Type": "application/octet-stream" },
      }),
    );
  const blocks = [
    ...(text.trim() ? [{ type: "text", text }] : []),
    ...uploads.map((upload) => ({ type: "upload", id: upload.id })),
  ];
  await api.post(
    `sessions/${session}/prompt`,
    { prompt: blocks, queue: true },
    { "Idempotency-Key": api.randomText() },
  );
}
