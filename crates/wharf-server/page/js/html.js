// @ts-check
/** Binds htm's templates to Preact: html`<p>text</p>` is an element. */
import { h } from "preact";
import htm from "../vendor/htm.js";

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = /** @type {any} */ (htm).bind(h);
