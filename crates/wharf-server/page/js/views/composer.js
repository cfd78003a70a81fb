// @ts-check
/** The field in which a person writes to the agent. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import * as api from "../api.js";
import { onDraftElsewhere, readDraft, writeDraft } from "../drafts.js";
import { html } from "../html.js";
import { scaleImage } from "../images.js";
import { joinTexts, sendLater, takeReturns } from "../outbox.js";
import { app, attempt, isConnected, mayControl, showMessage } from "../store.js";
import { CompletionList, useCompletion } from "./completion.js";
import { Icon } from "./icon.js";
import { readWholeText } from "./queue.js";

/** @import { EventOf } from "../html.js" */
/** @import { NamedFile } from "../outbox.js" */
/** @import { Transcript } from "../transcript.js" */

/** After so long a running stop can be forced. */
const FORCE_AFTER_MS = 3000;

/** True if Enter sends: with a hardware keyboard. A touch keyboard has no other key for a new line. */
export const enterSends = () => !matchMedia("(pointer: coarse)").matches;

/** @param {{ transcript: Transcript }} props */
export function Composer({ transcript }) {
  const session = transcript.session;
  const [text, setText] = useState(() => readDraft(session));
  const [caret, setCaret] = useState(text.length);
  const [selected, setSelected] = useState(0);
  const [dismissed, setDismissed] = useState("");
  const [images, setImages] = useState(/** @type {{ blob: Blob, name: string, url: string }[]} */ ([]));
  const files = useRef(/** @type {NamedFile[]} */ ([]));
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const nextCaret = useRef(/** @type {number | null} */ (null));
  const settings = transcript.state?.settings;
  const takesImages = !settings?.accepts || settings.accepts.includes("image");

  useEffect(() => onDraftElsewhere(session, setText), [session]);
  useLayoutEffect(() => {
    const area = field.current;
    if (!area) return;
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight + 2, innerHeight * 0.4)}px`;
    if (nextCaret.current !== null) area.setSelectionRange(nextCaret.current, nextCaret.current);
    nextCaret.current = null;
  }, [text]);

  /** The text of this very moment: keys and prompts that come back may come before the next drawing. */
  const typed = useRef(text);
  typed.current = text;
  const change = (/** @type {string} */ value) => {
    typed.current = value;
    setText(value);
    writeDraft(session, value);
  };
  useEffect(
    () =>
      takeReturns(session, (prompt) => {
        change(joinTexts(prompt.text, typed.current));
        files.current = [...prompt.files, ...files.current];
        setImages((known) => [...prompt.images, ...known]);
      }),
    [session],
  );
  const found = useCompletion({
    text,
    caret,
    commands: settings?.commands ?? [],
    filePath: (query) => `sessions/${session}/files${api.toQuery({ q: query, limit: 12 })}`,
  });
  const completion = found && dismissed !== text ? found : null;

  const choose = (/** @type {number} */ index) => {
    if (!completion) return;
    const item = completion.items[index];
    if (item.file) files.current.push(item.file);
    const value = text.slice(0, completion.from) + item.text + text.slice(completion.to);
    change(value);
    setDismissed(value);
    const place = completion.from + item.text.length;
    setCaret(place);
    nextCaret.current = place;
  };

  const addImages = async (/** @type {Iterable<File>} */ list) => {
    const pictures = [...list].filter((file) => file.type.startsWith("image/"));
    if (!pictures.length) return;
    if (!takesImages) return showMessage("This agent takes no images.");
    const added = await Promise.all(
      pictures.map(async (file) => {
        const blob = await scaleImage(file);
        return { blob, name: file.name || "image.png", url: URL.createObjectURL(blob) };
      }),
    );
    setImages((known) => [...known, ...added]);
  };

  const sendPrompt = () => {
    if (!typed.current.trim() && !images.length) return;
    sendLater({ session, text: typed.current, images, files: files.current });
    files.current = [];
    setImages([]);
    change("");
    field.current?.focus();
  };

  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return;
    if (completion) {
      const count = completion.items.length;
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        return setSelected((selected + (event.key === "ArrowDown" ? 1 : count - 1)) % count);
      }
      if (event.key === "Tab" || event.key === "Enter") {
        event.preventDefault();
        return choose(Math.min(selected, count - 1));
      }
      if (event.key === "Escape") {
        event.stopPropagation();
        return setDismissed(text);
      }
    }
    if (event.key === "Enter" && !event.shiftKey && !event.altKey && (enterSends() || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      sendPrompt();
    }
    if (event.key === "ArrowUp" && !text) takeLastQueued(event);
  };

  /** Takes the last waiting prompt back into the field; one with attachments is changed in the queue. @param {KeyboardEvent} event */
  const takeLastQueued = async (event) => {
    const last = transcript.state?.queue?.at(-1);
    if (!last || last.attachments?.length) return;
    event.preventDefault();
    const whole = await attempt(readWholeText(session, last));
    if (typeof whole !== "string") return;
    if (await attempt(api.call("DELETE", `sessions/${session}/queue/${last.promptId}`))) change(whole);
  };

  if (!mayControl()) return html`<p class="composer faint">You can look at this session, not change it.</p>`;
  const info = transcript.state?.session ?? app.sessions.get(session);
  const running = info && info.turn !== "idle";
  return html`<form class="composer" onSubmit=${(/** @type {Event} */ event) => {
    event.preventDefault();
    sendPrompt();
  }}
      onDragOver=${(/** @type {Event} */ event) => event.preventDefault()} onDrop=${(
        /** @type {DragEvent} */ event,
      ) => {
        event.preventDefault();
        addImages(event.dataTransfer?.files ?? []);
      }}>
    ${completion ? html`<${CompletionList} completion=${completion} selected=${Math.min(selected, completion.items.length - 1)} onChoose=${choose} />` : ""}
    ${
      images.length
        ? html`<div class="attachments">${images.map(
            (
              image,
            ) => html`<span class="attachment">${image.blob.type.startsWith("image/") ? html`<img src=${image.url} alt=${image.name} />` : image.name}
      <button type="button" class="icon-button" aria-label=${`Remove ${image.name}`} onClick=${() => setImages(images.filter((other) => other !== image))}><${Icon} name="close" /></button></span>`,
          )}</div>`
        : ""
    }
    ${isConnected() ? "" : html`<p class="warning">Your text is kept; what you send is sent once, when the host answers.</p>`}
    <div class="composer-line">
      ${
        takesImages
          ? html`<label class="icon-button attach" title="Add an image"><${Icon} name="image" /><span class="hidden-text">Add an image</span><input type="file" accept="image/*" multiple class="hidden-text"
        onChange=${(/** @type {EventOf<HTMLInputElement>} */ event) => {
          addImages(event.target.files ?? []);
          event.target.value = "";
        }} /></label>`
          : ""
      }
      <textarea ref=${field} id="composer" rows="1" placeholder="Message" aria-label="Message to the agent" aria-controls=${completion ? "completion" : undefined}
        aria-activedescendant=${completion ? `completion-${selected}` : undefined} value=${text}
        onInput=${(/** @type {EventOf<HTMLTextAreaElement>} */ event) => {
          change(event.target.value);
          setCaret(event.target.selectionStart);
          setSelected(0);
        }}
        onSelect=${(/** @type {EventOf<HTMLTextAreaElement>} */ event) => setCaret(event.target.selectionStart)}
        onPaste=${(/** @type {ClipboardEvent} */ event) => {
          const pasted = event.clipboardData?.files;
          if (pasted?.length) {
            event.preventDefault();
            addImages(pasted);
          }
        }}
        onKeyDown=${onKeyDown}></textarea>
      ${running ? html`<${StopButton} session=${session} />` : ""}
      <button type="submit" class="send" disabled=${!text.trim() && !images.length} title=${running ? "Put into the queue" : "Send"}>${running ? "Queue" : "Send"}</button>
    </div>
  </form>`;
}

/** Stops the turn; if it does not stop, ends it by force. @param {{ session: string }} props */
function StopButton({ session }) {
  const [since, setSince] = useState(0);
  const [now, setNow] = useState(0);
  useEffect(() => {
    if (!since) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 250);
    return () => clearInterval(timer);
  }, [since]);
  const left = since ? Math.max(0, Math.ceil((since + FORCE_AFTER_MS - now) / 1000)) : 0;
  const stop = () => {
    if (since && left > 0) return;
    attempt(api.post(`sessions/${session}/interrupt`, since ? { force: true } : {}));
    if (!since) {
      setNow(Date.now());
      setSince(Date.now());
    }
  };
  const label = !since ? "Stop" : left > 0 ? `Stopping… ${left}` : "Force stop";
  return html`<button type="button" class="stop" onClick=${stop} title=${since ? "Ends the agent's process and starts it again" : "Ends the running turn"}>${label}</button>`;
}
