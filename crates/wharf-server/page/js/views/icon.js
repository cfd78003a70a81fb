// @ts-check
/** Small pictures for buttons, drawn in the colour of the text. */
import { html } from "../html.js";

export const BRAND_MARK = new URL("../../icons/icon.svg", import.meta.url).href;

/** @type {Record<string, string>} the paths of a drawing of 24 by 24 */
const PATHS = {
  back: "M15 5l-7 7 7 7",
  close: "M6 6l12 12M18 6L6 18",
  down: "M12 5v13M6 12l6 6 6-6",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  image: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15 9h.01",
  menu: "M5 12h.01M12 12h.01M19 12h.01",
  muted: "M6 16h12l-2-3V9a4 4 0 0 0-7-2.6M8 9v4l-2 3M10.5 19a1.7 1.7 0 0 0 3 0M4 4l16 16",
  now: "M9 10l-4 4 4 4M5 14h9a5 5 0 0 0 5-5V5",
  people: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4.5 20a7.5 7.5 0 0 1 15 0",
  plus: "M12 5v14M5 12h14",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM16 16l4.5 4.5",
  send: "M12 19V5M6 11l6-6 6 6",
  slash: "M4 5h16v14H4zM8 9l3 3-3 3M13 15h4",
  stop: "M7 7h10v10H7z",
  up: "M12 19V6M6 12l6-6 6 6",
};

/** @param {{ name: string }} props */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>`;
}
