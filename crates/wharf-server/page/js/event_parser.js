// @ts-check
/** Splits the text of an event stream into events. */

/** @param {(event: string, data: string, id: string | null) => void} onEvent */
export function makeEventParser(onEvent) {
  let rest = "";
  let event = "",
    id = /** @type {string | null} */ (null),
    data = /** @type {string[]} */ ([]);
  /** @param {string} line */
  const takeLine = (line) => {
    if (line === "") {
      if (data.length) onEvent(event || "message", data.join("\n"), id);
      event = "";
      id = null;
      data = [];
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") event = value;
    else if (field === "data") data.push(value);
    else if (field === "id") id = value;
  };
  return (/** @type {string} */ text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) takeLine(line.endsWith("\r") ? line.slice(0, -1) : line);
  };
}
