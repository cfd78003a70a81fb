// @ts-check
/** The content of prompts, messages and tools: text that may grow, images, files. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import * as api from "../api.js";
import { size } from "../format.js";
import { html } from "../html.js";
import { MarkdownView } from "../markdown.js";
import { attempt, showMessage } from "../store.js";
import { appendText, OddFinder, plainText } from "../text.js";

/** @import { RowBlobPart, RowCut, RowPart, RowTextPage } from "contract" */
/** @import { RowOf, RowWithParts, Transcript } from "../transcript.js" */

/** The most bytes of a text that a row shows, with its end. Below that there is no gap between the beginning and the end. */
const MAX_SHOWN_BYTES = 28 * 1024;

/** Text as it is, with its line breaks. @param {{ text: string, class?: string }} props */
export function PlainText({ text, class: name }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    ref.current?.replaceChildren();
    if (ref.current) appendText(ref.current, text);
  }, [text]);
  return html`<div class=${`plain ${name ?? ""}`} ref=${ref}></div>`;
}

/**
 * The parts of a message. Text that is appended while it streams goes straight into the nodes.
 * @param {{ row: RowOf<"prompt" | "message" | "thought">, transcript: Transcript, markdown: boolean }} props
 */
export function RowParts({ row, transcript, markdown }) {
  const views = useRef(/** @type {Map<number, MarkdownView>} */ (new Map()));
  const tails = useRef(/** @type {Map<number, (tail: string) => void>} */ (new Map()));
  const takers = useRef(/** @type {((element: HTMLElement | null) => void)[]} */ ([]));
  const shown = useRef(/** @type {RowWithParts} */ (row));
  const update = (/** @type {RowWithParts} */ newer) => {
    shown.current = newer;
    newer.parts.forEach((part, index) => {
      if (part.type !== "text") return;
      views.current.get(index)?.update(part.text, !newer.open);
      tails.current.get(index)?.(part.cut?.tail ?? "");
    });
  };
  /** Returns what takes the element of a part. It stays the same: another one would have the text made again, without the selection. */
  const takerOf = (/** @type {number} */ index) =>
    (takers.current[index] ??= (element) => {
      if (!element) return void views.current.delete(index);
      const view = new MarkdownView(element);
      views.current.set(index, view);
      const part = shown.current.parts[index];
      view.update(part?.type === "text" ? part.text : "", !shown.current.open);
    });
  useLayoutEffect(() => update(row), [row]);
  useEffect(() => {
    if (!row.open || !markdown) return undefined;
    transcript.appendListeners.set(row.id, update);
    return () => void transcript.appendListeners.delete(row.id);
  }, [row.id, row.open]);
  return row.parts.map((part, index) => {
    if (part.type !== "text") return html`<${OtherPart} part=${part} session=${transcript.session} />`;
    const whole = part.cut
      ? html`<${WholeText} session=${transcript.session} cut=${part.cut} />
      ${part.cut.tail ? html`<${TextTail} tail=${part.cut.tail} takers=${tails.current} index=${index} />` : ""}`
      : "";
    if (!markdown) return html`<${PlainText} text=${part.text} />${whole}`;
    return html`<div class="markdown" ref=${takerOf(index)}></div>${whole}`;
  });
}

/** The end of a text that is too large for its row, as it is: where it begins, its markup may be open. It grows without a new drawing. */
/** @param {{ tail: string, takers: Map<number, (tail: string) => void>, index: number }} props */
function TextTail({ tail, takers, index }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const shown = useRef({ text: "", finder: new OddFinder() });
  const show = (/** @type {string} */ now) => {
    const element = ref.current;
    if (!element) return;
    if (!now.startsWith(shown.current.text)) {
      element.replaceChildren();
      shown.current = { text: "", finder: new OddFinder() };
    }
    appendText(element, now.slice(shown.current.text.length), shown.current.finder);
    shown.current.text = now;
  };
  useLayoutEffect(() => {
    takers.set(index, show);
    return () => void takers.delete(index);
  }, [index]);
  useLayoutEffect(() => show(tail), [tail]);
  return html`<div class="plain text-tail" ref=${ref}></div>`;
}

/** @param {{ part: RowPart, session: string }} props */
export function OtherPart({ part, session }) {
  if (part.type === "blob" && part.media === "image") return html`<${BlobImage} part=${part} session=${session} />`;
  if (part.type === "blob") return html`<${BlobDownload} part=${part} session=${session} />`;
  if (part.type === "file")
    return html`<span class="chip" title=${plainText(part.uri)}>📄 ${plainText(part.name ?? part.uri)}</span>`;
  return html`<span class="chip faint">content of a kind that this page does not know</span>`;
}

/**
 * An image: the page's key cannot go with the address of an image, so that its bytes are fetched.
 * @param {{ part: RowBlobPart, session: string }} props
 */
function BlobImage({ part, session }) {
  const [address, setAddress] = useState("");
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    let url = "";
    let gone = false;
    const load = async () => {
      const response = await api.send("GET", `sessions/${session}/blobs/${part.blob}`).catch(() => null);
      if (!response?.ok || gone) return;
      url = URL.createObjectURL(await response.blob());
      if (gone) URL.revokeObjectURL(url);
      else setAddress(url);
    };
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      load();
    });
    if (frame.current) observer.observe(frame.current);
    return () => {
      gone = true;
      observer.disconnect();
      if (url) URL.revokeObjectURL(url);
    };
  }, [part.blob]);
  const name = plainText(part.name ?? "image");
  return html`<figure class="image" ref=${frame}>${address ? html`<img src=${address} alt=${name} />` : html`<span class="faint">${name}, ${size(part.bytes)}</span>`}</figure>`;
}

/** @param {{ part: RowBlobPart, session: string }} props */
function BlobDownload({ part, session }) {
  const name = plainText(part.name ?? part.media);
  const save = async () => {
    const response = await attempt(api.send("GET", `sessions/${session}/blobs/${part.blob}`));
    if (response?.ok) saveBlob(await response.blob(), name);
  };
  return html`<button class="chip" onClick=${save}>⬇ ${name}, ${size(part.bytes)}</button>`;
}

/** Hands bytes to the browser as a download. @param {Blob} blob @param {string} name */
export function saveBlob(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([blob], { type: "application/octet-stream" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Puts a text into the clipboard, and says whether that was possible. @param {string} text @param {string} name how the sentence begins */
export async function copyText(text, name) {
  try {
    await navigator.clipboard.writeText(text);
    showMessage(`${name} is in the clipboard.`);
  } catch {
    // There is no clipboard over plain HTTP, and a browser may forbid it.
    showMessage(`The browser lets the page copy nothing. ${name}: ${text}`);
  }
}

/**
 * Shows the text that is too large for its row, a piece at each press.
 * @param {{ session: string, cut: RowCut }} props
 */
export function WholeText({ session, cut }) {
  const [text, setText] = useState("");
  const [next, setNext] = useState(/** @type {number | null} */ (0));
  const whole = cut.whole;
  if (!whole) return html`<p class="faint">The text is longer: ${size(cut.bytes)}.</p>`;
  const more = async () => {
    const path = `sessions/${session}/${whole}${whole.includes("?") ? "&" : "?"}offset=${next ?? 0}`;
    const page = /** @type {RowTextPage | undefined} */ (await attempt(api.get(path)));
    if (!page) return;
    setText(text + page.text);
    setNext(page.next ?? null);
  };
  const missing = cut.missingLines
    ? `${cut.missingLines.toLocaleString("en")} lines are left out here. `
    : cut.tail && cut.bytes > MAX_SHOWN_BYTES
      ? "The middle is left out here. "
      : "";
  return html`${text ? html`<pre class="output" tabindex="0"><${PlainText} text=${text} /></pre>` : ""}
    ${next === null ? "" : html`<button class="quiet" onClick=${more}>${text ? "More" : `${missing}Show the whole text (${size(cut.bytes)})`}</button>`}`;
}
