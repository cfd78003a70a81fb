// @ts-check
/** Binds htm's templates to Preact: html`<p>text</p>` is an element. */
import { h } from "preact";
import htm from "../vendor/htm.js";

export const html = htm.bind(h);
