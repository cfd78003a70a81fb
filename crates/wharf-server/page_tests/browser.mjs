// Drives headless Chromium by its DevTools protocol over a pipe: no library, no open port.
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

/** Only what never comes takes so long, also on a machine with much other work. */
const WAIT_MS = Number(process.env.WHARF_PAGE_WAIT_MS ?? 120_000);

/** Returns the path of Chromium, or null if there is none. */
export function findChromium() {
  const named = process.env.CHROMIUM;
  const places = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome", "/snap/bin/chromium"];
  return [named, ...places].find((place) => place && fs.existsSync(place)) ?? null;
}

const ENDED = "Chromium has ended";

export class Browser {
  static async launch() {
    const program = findChromium();
    if (!program) throw new Error("there is no Chromium; install Debian's package chromium, or set CHROMIUM");
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "wharf-page-"));
    const flags = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding",
      "--js-flags=--expose-gc", "--lang=en-US", `--user-data-dir=${folder}`, "about:blank"];
    const child = spawn(program, flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"], env: { ...process.env, HOME: folder, TZ: "UTC" } });
    return new Browser(child, folder);
  }

  constructor(child, folder) {
    Object.assign(this, { child, folder, next: 1, pending: new Map(), listeners: new Map() });
    this.ended = new Promise((resolve) => child.once("exit", resolve));
    this.isEnded = false;
    this.ended.then(() => {
      this.isEnded = true;
      this.pending.forEach(({ reject }) => reject(new Error(ENDED)));
      this.pending.clear();
    });
    // The end of the process says the same.
    child.stdio[3].on("error", () => {});
    let rest = Buffer.alloc(0);
    child.stdio[4].on("data", (data) => {
      rest = Buffer.concat([rest, data]);
      for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
        this.#take(JSON.parse(rest.subarray(0, end).toString()));
        rest = rest.subarray(end + 1);
      }
    });
  }

  #take(message) {
    if (message.id) {
      const { resolve, reject } = this.pending.get(message.id) ?? {};
      this.pending.delete(message.id);
      if (message.error) reject?.(new Error(message.error.message));
      else resolve?.(message.result);
    } else this.listeners.get(message.sessionId)?.(message.method, message.params);
  }

  send(method, params = {}, sessionId = undefined) {
    if (this.isEnded) return Promise.reject(new Error(ENDED));
    const id = this.next++;
    this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((resolve, reject) => this.pending.set(id, { resolve, reject }));
  }

  /** Opens a tab. With `fresh` it has storage and cookies of its own, as another device has. */
  async open({ fresh = true, context = null } = {}) {
    const own = context ?? (fresh ? (await this.send("Target.createBrowserContext")).browserContextId : undefined);
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank", browserContextId: own });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const tab = new Tab(this, targetId, sessionId, own);
    await tab.start();
    return tab;
  }

  /** Returns the CPU time in milliseconds of each task of the busiest page while the work is done. The browser has pages of its own. */
  async traceTasks(work) {
    const events = [];
    let onComplete = () => {};
    const complete = new Promise((resolve) => { onComplete = resolve; });
    this.listeners.set(undefined, (method, params) => {
      if (method === "Tracing.dataCollected") events.push(...params.value);
      else if (method === "Tracing.tracingComplete") onComplete();
    });
    await this.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["toplevel"], recordMode: "recordAsMuchAsPossible" } });
    await work();
    await this.send("Tracing.end");
    await complete;
    const threads = new Map(events.filter((one) => one.name === "thread_name" && one.args.name === "CrRendererMain").map((one) => [`${one.pid}/${one.tid}`, []]));
    for (const one of events) if (one.ph === "X" && one.tdur) threads.get(`${one.pid}/${one.tid}`)?.push(one.tdur / 1000);
    return [...threads.values()].toSorted((a, b) => b.length - a.length)[0];
  }

  async close() {
    await this.send("Browser.close").catch(() => {});
    await this.ended;
    fs.rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

export class Tab {
  constructor(browser, targetId, sessionId, context) {
    Object.assign(this, { browser, targetId, sessionId, context, errors: [], loads: 0, crashed: false });
    browser.listeners.set(sessionId, (method, params) => this.#event(method, params));
  }

  async start() {
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await this.send(`${domain}.enable`);
    await this.send("Emulation.setFocusEmulationEnabled", { enabled: true });
    await this.size(1280, 800);
  }

  send(method, params) {
    return this.browser.send(method, params, this.sessionId);
  }

  #event(method, params) {
    if (method === "Runtime.exceptionThrown") this.errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    else if (method === "Log.entryAdded" && params.entry.level === "error") this.errors.push(`${params.entry.text} ${params.entry.url ?? ""}`);
    else if (method === "Runtime.consoleAPICalled" && ["error", "assert"].includes(params.type)) this.errors.push(params.args.map((arg) => arg.value ?? arg.description).join(" "));
    else if (method === "Inspector.targetCrashed") this.crashed = true;
    this.onEvent?.(method, params);
  }

  size(width, height, mobile = false) {
    return Promise.all([
      this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: mobile ? 2 : 1, mobile }),
      this.send("Emulation.setTouchEmulationEnabled", { enabled: mobile }),
      this.send("Emulation.setEmitTouchEventsForMouse", { enabled: false }),
    ]);
  }

  colours(scheme, more = []) {
    return this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }, ...more] });
  }

  async go(address) {
    await this.send("Page.navigate", { url: address });
    // A change after `#` alone loads nothing.
    await this.wait(() => document.readyState === "complete", "the page to load");
  }

  /** Loads the page again, and waits until the new document is there: the old one may show what is waited for. */
  async reload() {
    await this.run(() => { window.isOldDocument = true; });
    await this.send("Page.reload");
    await this.wait(() => !window.isOldDocument && document.readyState === "complete", "the page to load again");
  }

  /** Runs a function in the page, with JSON arguments, and returns its JSON. */
  async run(work, ...values) {
    const expression = `(${work})(...${JSON.stringify(values)})`;
    const result = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true, userGesture: true });
    if (result.exceptionDetails) throw new Error(result.exceptionDetails.exception?.description ?? result.exceptionDetails.text);
    return result.result.value;
  }

  /** Waits until the function returns something true in the page, and returns it. */
  async wait(work, what, ...values) {
    const until = Date.now() + WAIT_MS;
    for (;;) {
      const found = await this.run(work, ...values).catch((error) => {
        if (/context|navigat/i.test(error.message)) return null;
        throw error;
      });
      if (found) return found;
      if (Date.now() > until) {
        const text = await this.run(() => document.body.innerText.slice(0, 1500)).catch(() => "");
        throw new Error(`waited in vain for ${what}; the page says:\n${text}\nerrors: ${this.errors.join("\n")}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  }

  waitText(text, selector = "body") {
    return this.wait((wanted, where) => [...document.querySelectorAll(where)].some((one) => one.innerText.includes(wanted)), `the text ${JSON.stringify(text)} in ${selector}`, text, selector);
  }

  waitFor(selector) {
    return this.wait((where) => Boolean(document.querySelector(where)), selector, selector);
  }

  /**
   * Clicks the middle of the first element that matches and, if given, has this text, when it stands still. A click that meets another
   * element, because the page has moved meanwhile, is repeated.
   */
  async click(selector, text = "") {
    const until = Date.now() + WAIT_MS;
    do {
      const place = await this.#place(selector, text);
      for (const type of ["mousePressed", "mouseReleased"]) await this.send("Input.dispatchMouseEvent", { type, ...place, button: "left", clickCount: 1 });
      // A page that has gone away was clicked.
      if ((await this.run(() => window.hasMetClick).catch(() => true)) !== false) return;
    } while (Date.now() < until);
    throw new Error(`clicks do not meet ${selector} ${text}`);
  }

  /** Returns the middle of an element that stands still, and has the page note whether the next click meets it. */
  #place(selector, text) {
    return this.wait(async (where, wanted) => {
      const isWanted = (one) => one.matches?.(where) && one.textContent.includes(wanted);
      const find = () => [...document.querySelectorAll(where)].find((one) => isWanted(one) && !one.disabled && one.getClientRects().length);
      const measure = () => {
        const box = find()?.getBoundingClientRect();
        return box?.width ? { x: box.x + box.width / 2, y: box.y + box.height / 2 } : null;
      };
      find()?.scrollIntoView({ block: "nearest", inline: "nearest" });
      const before = measure();
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      const after = measure();
      if (before?.x !== after?.x || before?.y !== after?.y) return null;
      window.hasMetClick = false;
      const note = (event) => { window.hasMetClick ||= event.composedPath().some(isWanted); };
      addEventListener("click", note, { capture: true, once: true });
      return after;
    }, `${selector} ${text} to click`, selector, text);
  }

  async type(selector, text) {
    await this.waitFor(selector);
    await this.run((where) => document.querySelector(where).focus(), selector);
    await this.send("Input.insertText", { text });
  }

  async key(key, { modifiers = 0, code = key, keyCode = { Enter: 13, Escape: 27, Tab: 9, ArrowDown: 40, ArrowUp: 38 }[key] ?? key.toUpperCase().charCodeAt(0) } = {}) {
    const text = key === "Enter" ? "\r" : key.length === 1 && !(modifiers & 6) ? key : undefined;
    await this.send("Input.dispatchKeyEvent", { type: text ? "keyDown" : "rawKeyDown", key, code, modifiers, windowsVirtualKeyCode: keyCode, text });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", key, code, modifiers, windowsVirtualKeyCode: keyCode });
  }

  async picture(file) {
    const { data } = await this.send("Page.captureScreenshot", { format: "png" });
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, Buffer.from(data, "base64"));
  }

  close() {
    return this.browser.send("Target.closeTarget", { targetId: this.targetId });
  }
}
