// @ts-check
/** Text of agents, made safe to look at: characters that hide or reorder text are shown by their names. */

const ODD = /[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c\u0000-\u0008\u000b-\u001f\u007f-\u009f\ufeff]/;
const ODD_ALL = new RegExp(ODD, "g");

/** Appends text to a node. @param {Node} node @param {string} text */
export function appendText(node, text) {
  if (!ODD.test(text)) {
    const last = node.lastChild;
    if (last && last.nodeType === 3) /** @type {Text} */ (last).appendData(text);
    else node.appendChild(document.createTextNode(text));
    return;
  }
  let from = 0;
  for (const match of text.matchAll(ODD_ALL)) {
    if (match.index > from) node.appendChild(document.createTextNode(text.slice(from, match.index)));
    const mark = document.createElement("span");
    const name = `U+${match[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    mark.className = "odd-character";
    mark.textContent = name;
    mark.title = "An invisible character that the text has here";
    node.appendChild(mark);
    from = match.index + 1;
  }
  if (from < text.length) node.appendChild(document.createTextNode(text.slice(from)));
}

/** Returns text for places that take no nodes. @param {string} text */
export const plainText = (text) => text.replace(ODD_ALL, "\ufffd");
