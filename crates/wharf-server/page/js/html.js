// @ts-check
/** Binds htm's templates to Preact: html`<p>text</p>` is an element. */
import { h } from "preact";
import htm from "../vendor/htm.js";

/** @import { ComponentChildren } from "preact" */

/** An event of an element of this type. @template {EventTarget} T @typedef {Event & { target: T }} EventOf */

/** @type {(strings: TemplateStringsArray, ...values: unknown[]) => ComponentChildren} */
export const html = htm.bind(h);
