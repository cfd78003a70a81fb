// @ts-check
/**
 * Text of agents, made safe to look at: characters that are invisible or reorder text are shown by their names (rule 19.5).
 * The lists are those of fixtures/text/odd_characters.txt; a test compares them.
 */

/** A quick look, and the list without exceptions. */
const ODD =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{13430}-\u{1343f}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/u;
const ODD_ALL = new RegExp(ODD, "gu");

/**
 * Characters that mean something right after others: joiners in scripts that join and in emoji, variation selectors, the blank of Braille.
 * @type {{ own: RegExp, after: RegExp }[]}
 */
const ALLOWED = [
  {
    own: /[\u200c\u200d]/u,
    after: /[\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\ufb50-\ufdff\ufe70-\ufefc\u{11000}-\u{11fff}]/u,
  },
  { own: /\u200d/u, after: /[\xa9\xae\u203c-\u2bff\u3030\u303d\u3297\u3299\ufe0f\u{1f000}-\u{1faff}]/u },
  {
    own: /[\ufe00-\ufe0f]/u,
    after: /[#*0-9\xa9\xae\u1000-\u109f\u203c-\u2bff\u3000-\u9fff\uf900-\ufaff\u{1f000}-\u{1faff}\u{20000}-\u{3ffff}]/u,
  },
  { own: /[\u180b-\u180d\u180f]/u, after: /[\u1820-\u18af]/u },
  { own: /[\u{e0100}-\u{e01ef}]/u, after: /[\u3400-\u9fff\uf900-\ufaff\u{20000}-\u{3ffff}]/u },
  { own: /\u2800/u, after: /[\u2800-\u28ff]/u },
];
const FLAG = "\u{1f3f4}";
const FLAG_LETTER = /[\u{e0030}-\u{e0039}\u{e0061}-\u{e007a}]/u;
const FLAG_END = "\u{e007f}";
const MAX_FLAG_LETTERS = 6;

/** Finds odd characters in a text that may come in pieces. */
export class OddFinder {
  #before = "";
  /** The letters of a flag so far, or -1 outside of one. */
  #flagLetters = -1;

  /** Returns the odd characters of the next piece and their places. @param {string} text @returns {{ index: number, character: string }[]} */
  find(text) {
    if (!text) return [];
    const odd = [];
    let end = 0;
    for (const match of ODD.test(text) ? text.matchAll(ODD_ALL) : []) {
      if (match.index > end) this.#pass(text.slice(end, match.index));
      end = match.index + match[0].length;
      if (this.#allows(match[0])) this.#before = match[0];
      else {
        odd.push({ index: match.index, character: match[0] });
        [this.#before, this.#flagLetters] = ["", -1];
      }
    }
    if (end < text.length) this.#pass(text.slice(end));
    return odd;
  }

  /** Goes on behind characters that are not in the list. @param {string} text */
  #pass(text) {
    const last = text.charCodeAt(text.length - 1);
    const isPair = last >= 0xdc00 && last <= 0xdfff && text.length > 1;
    // The halves of a character may come in two pieces.
    const half = this.#before.length === 1 && text.length === 1 ? this.#before + text : text;
    this.#before = isPair ? text.slice(-2) : last >= 0xdc00 && last <= 0xdfff ? half : text.slice(-1);
    this.#flagLetters = this.#before === FLAG ? 0 : -1;
  }

  /** @param {string} character */
  #allows(character) {
    if (this.#flagLetters >= 0) {
      const isLetter = FLAG_LETTER.test(character) && this.#flagLetters < MAX_FLAG_LETTERS;
      const isEnd = character === FLAG_END && this.#flagLetters > 0;
      if (isLetter || isEnd) {
        this.#flagLetters = isLetter ? this.#flagLetters + 1 : -1;
        return true;
      }
    }
    if (!ALLOWED.some(({ own, after }) => own.test(character) && after.test(this.#before))) return false;
    this.#flagLetters = -1;
    return true;
  }
}

/** @param {string} character */
const nameOf = (character) =>
  `U+${/** @type {number} */ (character.codePointAt(0)).toString(16).toUpperCase().padStart(4, "0")}`;

/** Appends text to a node. @param {Node} node @param {string} text @param {OddFinder} [finder] of a text that comes in pieces */
export function appendText(node, text, finder = new OddFinder()) {
  let from = 0;
  for (const { index, character } of finder.find(text)) {
    appendPlain(node, text.slice(from, index));
    const mark = document.createElement("span");
    mark.className = "odd-character";
    mark.textContent = nameOf(character);
    mark.title = "An invisible character that the text has here";
    node.appendChild(mark);
    from = index + character.length;
  }
  appendPlain(node, text.slice(from));
}

/** @param {Node} node @param {string} text */
function appendPlain(node, text) {
  const last = node.lastChild;
  if (!text) return;
  if (last && last.nodeType === 3) /** @type {Text} */ (last).appendData(text);
  else node.appendChild(document.createTextNode(text));
}

/** Returns text for places that take no nodes. @param {string} text */
export function plainText(text) {
  let [shown, from] = ["", 0];
  for (const { index, character } of new OddFinder().find(text)) {
    shown += `${text.slice(from, index)}[${nameOf(character)}]`;
    from = index + character.length;
  }
  return shown + text.slice(from);
}
