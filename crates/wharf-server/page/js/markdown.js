// @ts-check
/** Markdown that grows: nodes are appended as text comes, so that a selection stays. Nothing of the text becomes markup by itself. */
import * as smd from "../vendor/streaming-markdown.js";
import { colourCode } from "./code_colour.js";
import { appendText, OddFinder } from "./text.js";

/** @type {Record<number, string>} */
const TAGS = {
  [smd.PARAGRAPH]: "p",
  [smd.HEADING_1]: "h3",
  [smd.HEADING_2]: "h4",
  [smd.HEADING_3]: "h5",
  [smd.HEADING_4]: "h6",
  [smd.HEADING_5]: "h6",
  [smd.HEADING_6]: "h6",
  [smd.CODE_INLINE]: "code",
  [smd.ITALIC_AST]: "em",
  [smd.ITALIC_UND]: "em",
  [smd.STRONG_AST]: "strong",
  [smd.STRONG_UND]: "strong",
  [smd.STRIKE]: "s",
  [smd.LINK]: "a",
  [smd.RAW_URL]: "a",
  [smd.IMAGE]: "a",
  [smd.BLOCKQUOTE]: "blockquote",
  [smd.LINE_BREAK]: "br",
  [smd.RULE]: "hr",
  [smd.LIST_UNORDERED]: "ul",
  [smd.LIST_ORDERED]: "ol",
  [smd.LIST_ITEM]: "li",
  [smd.TABLE]: "table",
  [smd.TABLE_ROW]: "tr",
  [smd.TABLE_CELL]: "td",
  [smd.EQUATION_BLOCK]: "code",
  [smd.EQUATION_INLINE]: "code",
  [smd.CHECKBOX]: "span",
};

/** Returns the address if a person may follow it. @param {string} text */
export function safeLink(text) {
  try {
    const url = new URL(text.trim());
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

export class MarkdownView {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.text = "";
    this.#reset();
  }

  #reset() {
    this.root.replaceChildren();
    this.root.classList.remove("complete");
    /** @type {HTMLElement[]} */
    this.stack = [this.root];
    this.broken = false;
    this.ended = false;
    this.finder = new OddFinder();
    this.parser = smd.parser({
      data: null,
      add_token: (/** @type {null} */ _, /** @type {number} */ type) => this.#open(type),
      end_token: () => this.#close(),
      add_text: (/** @type {null} */ _, /** @type {string} */ text) => appendText(this.#top(), text, this.finder),
      set_attr: (/** @type {null} */ _, /** @type {number} */ type, /** @type {string} */ value) =>
        this.#setAttribute(type, value),
    });
  }

  /** Shows this text, which is usually what is shown already and more. @param {string} text @param {boolean} complete */
  update(text, complete) {
    if (!text.startsWith(this.text) || (this.ended && text !== this.text)) {
      this.#reset();
      this.text = "";
    }
    const more = text.slice(this.text.length);
    this.text = text;
    if (more) this.#write(more);
    if (complete && !this.ended) {
      this.ended = true;
      this.#guard(() => smd.parser_end(this.parser));
      this.root.classList.add("complete");
    }
  }

  /** @param {string} more */
  #write(more) {
    if (this.broken) return appendText(this.root, more, this.finder);
    this.#guard(() => smd.parser_write(this.parser, more));
  }

  /** A text that the parser cannot take is shown as it is. @param {() => void} work */
  #guard(work) {
    try {
      work();
    } catch {
      this.broken = true;
      this.root.replaceChildren();
      this.root.classList.add("plain");
      this.finder = new OddFinder();
      appendText(this.root, this.text, this.finder);
    }
  }

  #top() {
    return this.stack[this.stack.length - 1];
  }

  /** @param {number} type */
  #open(type) {
    let element;
    if (type === smd.CODE_FENCE || type === smd.CODE_BLOCK) {
      const box = document.createElement("pre");
      box.tabIndex = 0;
      this.#top().appendChild(box);
      element = box.appendChild(document.createElement("code"));
    } else {
      element = document.createElement(TAGS[type] ?? "span");
      if (type === smd.TABLE) {
        const frame = this.#top().appendChild(document.createElement("div"));
        frame.className = "table-frame";
        frame.tabIndex = 0;
        frame.appendChild(element);
      } else if (type === smd.TABLE_CELL && !this.#top().previousElementSibling) {
        element = this.#top().appendChild(document.createElement("th"));
      } else this.#top().appendChild(element);
    }
    if (type === smd.CHECKBOX) element.textContent = "☐ ";
    this.stack.push(element);
  }

  #close() {
    if (this.stack.length < 2) return;
    const element = /** @type {HTMLElement} */ (this.stack.pop());
    if (element.parentElement?.tagName === "PRE") colourCode(element, element.dataset.language ?? "");
  }

  /** @param {number} type @param {string} value */
  #setAttribute(type, value) {
    const element = this.#top();
    if (type === smd.LANG) element.dataset.language = value.split(/[\s,{]/)[0];
    else if (type === smd.START) element.setAttribute("start", String(Number(value) || 1));
    else if (type === smd.CHECKED) element.textContent = "☑ ";
    else if (type === smd.HREF || type === smd.SRC) {
      const link = safeLink(value);
      if (link) {
        element.setAttribute("href", link);
        element.setAttribute("target", "_blank");
        element.setAttribute("rel", "noopener noreferrer");
        element.title = link;
      } else element.title = `This address cannot be opened from here: ${value.slice(0, 200)}`;
    }
  }
}
