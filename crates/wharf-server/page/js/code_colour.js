// @ts-check
/** Colours code when its block is complete. The library and its languages are loaded when the first block asks for them. */

/** @type {Record<string, string>} names that people write after a fence, and the file of the language */
const LANGUAGES = {
  rust: "rust",
  rs: "rust",
  python: "python",
  py: "python",
  javascript: "javascript",
  js: "javascript",
  jsx: "javascript",
  mjs: "javascript",
  typescript: "typescript",
  ts: "typescript",
  tsx: "typescript",
  bash: "bash",
  sh: "bash",
  shell: "bash",
  zsh: "bash",
  console: "bash",
  json: "json",
  jsonc: "json",
  diff: "diff",
  patch: "diff",
  go: "go",
  java: "java",
  c: "c",
  h: "c",
  cpp: "cpp",
  "c++": "cpp",
  cc: "cpp",
  css: "css",
  html: "xml",
  xml: "xml",
  svg: "xml",
  yaml: "yaml",
  yml: "yaml",
  sql: "sql",
  toml: "ini",
  ini: "ini",
};
/** Longer blocks stay as they are: colouring them would take longer than a frame. */
const MAX_CHARS = 20_000;

/**
 * A piece of a text, or pieces that have a colour; and the part of the library that is used here.
 * @typedef {string | { scope?: string, children: Piece[] }} Piece
 * @typedef {{ _emitter?: { rootNode?: { children: Piece[] } } }} Coloured
 * @typedef {{ registerLanguage: (name: string, language: unknown) => void,
 *   highlight: (text: string, options: { language: string, ignoreIllegals: boolean }) => Coloured }} Library
 */

/** @type {Promise<Library> | null} */
let library = null;
/** @type {Map<string, Promise<void>>} */
const loaded = new Map();

/** @param {string} name */
async function loadLanguage(name) {
  library ??= import("../vendor/highlight.js").then((module) => module.default);
  const hljs = await library;
  if (!loaded.has(name)) {
    loaded.set(
      name,
      import(`../vendor/languages/${name}.js`).then((module) => hljs.registerLanguage(name, module.default)),
    );
  }
  await loaded.get(name);
  return hljs;
}

/** Colours the text of an element, unless the language is not known. @param {HTMLElement} element @param {string} word */
export async function colourCode(element, word) {
  const name = LANGUAGES[word.toLowerCase()];
  const text = element.textContent ?? "";
  if (!name || text.length > MAX_CHARS || element.querySelector(".odd-character")) return;
  const hljs = await loadLanguage(name).catch(() => null);
  if (!hljs || element.textContent !== text) return;
  const result = hljs.highlight(text, { language: name, ignoreIllegals: true });
  const root = result._emitter?.rootNode;
  if (!root) return;
  const fragment = document.createDocumentFragment();
  addNodes(fragment, root.children);
  if (fragment.textContent === text) element.replaceChildren(fragment);
}

/** @param {Node} parent @param {Piece[]} children */
function addNodes(parent, children) {
  for (const child of children) {
    if (typeof child === "string") parent.appendChild(document.createTextNode(child));
    else {
      const span = document.createElement("span");
      span.className = (child.scope ?? "")
        .split(".")
        .map((/** @type {string} */ word) => `hl-${word.replace(/[^a-z0-9_-]/gi, "")}`)
        .join(" ");
      addNodes(span, child.children);
      parent.appendChild(span);
    }
  }
}
