// @ts-check
/** The page as a whole: the list beside the route's view; on a phone one of both. */
import { useEffect, useState } from "preact/hooks";
import { needsPerson } from "../attention.js";
import { html } from "../html.js";
import { startKeys } from "../keys.js";
import { app, isConnected, mayControl, retryNow, useApp } from "../store.js";
import { plainText } from "../text.js";
import { About } from "./about.js";
import { OpenAskSheet } from "./ask.js";
import { Changes } from "./changes.js";
import { Devices } from "./devices.js";
import { BRAND_MARK, Icon } from "./icon.js";
import { SessionList } from "./list.js";
import { Login } from "./login.js";
import { NotificationOffer } from "./notification_offer.js";
import { Palette } from "./palette.js";
import { Search } from "./search.js";
import { Session } from "./session.js";
import { Start } from "./start.js";

export function Shell() {
  useApp();
  const [palette, setPalette] = useState(false);
  useEffect(() => startKeys(setPalette), []);
  if (app.login !== "in") return html`<${Login} fault=${app.loginFault} ended=${app.login === "ended"} />`;
  const isList = app.route.kind === "list";
  const waiting = [...app.sessions.values()].filter(needsPerson).length;
  return html`<div class=${`shell${isList ? " at-list" : ""}`}>
    <a class="skip" href="#transcript" onClick=${(/** @type {Event} */ event) => {
      event.preventDefault();
      (document.getElementById("transcript") ?? document.getElementById("main"))?.focus();
    }}>To the transcript</a>
    <a class="skip" href="#composer" onClick=${(/** @type {Event} */ event) => {
      event.preventDefault();
      document.getElementById("composer")?.focus();
    }}>To the message field</a>
    <${Banner} />
    <aside class="side">
      <header class="side-head"><a class="brand" href="#/"><img class="brand-mark" src=${BRAND_MARK} alt="" />Wharf</a>
        ${waiting ? html`<span class="needs-count">${waiting}<span class="hidden-text"> sessions</span> need${waiting === 1 ? "s" : ""} you</span>` : ""}
        <button class="icon-button" onClick=${() => setPalette(true)} title="Go to a session or a command (Ctrl K)" aria-label="Go to a session or a command"><${Icon} name="slash" /></button></header>
      <div class="side-actions"><a class="search-link" href="#/search"><${Icon} name="search" /> Search</a>
        ${mayControl() ? html`<a class="button new-link" href="#/new"><${Icon} name="plus" /> New</a>` : ""}</div>
      <${SessionList} />
      <${NotificationOffer} />
      <footer class="side-foot"><a href="#/devices">${app.me?.name ?? "Devices"}</a> <a href="#/about">About</a></footer>
    </aside>
    <main id="main" class="main" tabindex="-1">${isList || app.route.kind === "session" ? "" : html`<a class="back page-back" href="#/"><${Icon} name="back" /> All sessions</a>`}<${View} /></main>
    <${OpenAskSheet} />
    ${palette ? html`<${Palette} onClose=${() => setPalette(false)} />` : ""}
    <div class="messages" role="status">${app.messages.map((message) => html`<p key=${message.id}>${plainText(message.text)}</p>`)}</div>
  </div>`;
}

/** Says why what is shown may be out of date. */
function Banner() {
  if (!isConnected())
    return html`<div class="banner" role="status">The host does not answer. <button class="quiet" onClick=${retryNow}>Try now</button></div>`;
  if (!app.isHeldBack) return "";
  return html`<div class="banner" role="status">Something between here and the host holds live data back. New text comes with a delay. A proxy must not buffer.</div>`;
}

function View() {
  const { kind, id, row, query } = app.route;
  switch (kind) {
    case "session":
      return html`<${Session} key=${id} id=${id} row=${row} />`;
    case "changes":
      return html`<${Changes} key=${id} id=${id} file=${query ?? ""} />`;
    case "new":
      return html`<${Start} directory=${query} />`;
    case "search":
      return html`<${Search} query=${query ?? ""} />`;
    case "devices":
      return html`<${Devices} />`;
    case "about":
      return html`<${About} />`;
    default:
      return app.listed && app.sessions.size === 0
        ? html`<${Start} />`
        : html`<div class="centre faint"><p>Choose a session${mayControl() ? html`, or <a href="#/new">start one</a>` : ""}.</p></div>`;
  }
}
