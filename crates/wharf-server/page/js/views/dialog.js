// @ts-check
/** A dialog of the browser: it keeps the focus inside and gives it back. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { html } from "../html.js";
import { Icon } from "./icon.js";

/** @import { ComponentChildren } from "preact" */

/**
 * @param {{ title: string, onClose: () => void, children: ComponentChildren, class?: string, heading?: boolean }} props
 */
export function Dialog({ title, onClose, children, class: name, heading }) {
  const ref = useRef(/** @type {HTMLDialogElement | null} */ (null));
  // Before the first paint: an Escape right after the dialog is seen has to close it.
  useLayoutEffect(() => {
    const before = document.activeElement;
    ref.current?.showModal();
    const first = ref.current?.querySelector("[data-first]");
    if (first instanceof HTMLElement) first.focus();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return html`<dialog ref=${ref} class=${name ?? ""} aria-label=${title} onCancel=${(/** @type {Event} */ event) => {
    event.preventDefault();
    onClose();
  }}
      onClick=${(/** @type {MouseEvent} */ event) => {
        if (event.target === ref.current) onClose();
      }}>
    <div class="dialog-body">
      <header class="dialog-head"><h2 tabindex="-1" data-first=${heading === false ? undefined : true}>${title}</h2>
        <button class="icon-button" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button></header>
      ${children}
    </div>
  </dialog>`;
}
