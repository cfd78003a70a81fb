// Small parts that all cases share.
import assert from "node:assert/strict";

export { assert };

/** @type {{ name: string, work: (world: any) => Promise<void> }[]} */
export const cases = [];
export const test = (name, work) => cases.push({ name, work });

/** Notes violations of the content policy, and the sentences that the page shows for some seconds only. */
const RECORDER = `
  window.violations = [];
  window.messages = new Set();
  document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective + " " + event.blockedURI));
  new MutationObserver(() => document.querySelectorAll(".messages p").forEach((one) => window.messages.add(one.textContent)))
    .observe(document, { subtree: true, childList: true, characterData: true });`;

/** Waits until the page has shown a sentence with this text for some seconds. */
export const waitMessage = (tab, text) => tab.wait((wanted) => [...window.messages].some((one) => one.includes(wanted)), `the message ${JSON.stringify(text)}`, text);

/** Opens a page that is signed in, at a route. */
export async function openPage(world, route = "", { code = {}, host = world.host, context = null } = {}) {
  const tab = await world.browser.open({ context });
  world.tabs.push(tab);
  await tab.send("Page.addScriptToEvaluateOnNewDocument", { source: RECORDER });
  if (context) await tab.go(`${host.url}/${route}`);
  else {
    await tab.go(await host.signInAddress(code));
    await tab.waitFor(".side-head");
    if (route) await tab.run((hash) => { location.hash = hash; }, route);
  }
  return tab;
}

/** Returns the text of the agent's messages that the page shows, without markup and blanks. */
export const shownMessages = (tab) => tab.run(() => [...document.querySelectorAll(".row-message .markdown")].map((one) => one.textContent).join("").replace(/[\s*`#|-]/g, ""));

/** Waits until the page shows exactly the messages of the host's rows. */
export async function waitSameText(world, tab, id) {
  const wanted = await world.host.messages(id);
  await tab.wait((text) => [...document.querySelectorAll(".row-message .markdown")].map((one) => one.textContent).join("").replace(/[\s*`#|-]/g, "") === text, `the text of the rows (${wanted.length} characters)`, wanted);
}

/** Runs a function in the page with one of its modules and JSON values. */
export const withModule = (tab, name, work, ...values) => tab.run(importing(work), name, ...values);

/** Waits until a function in the page, with one of its modules, returns something. */
export const waitForModule = (tab, name, work, what, ...values) => tab.wait(importing(work), what, name, ...values);

/** Returns a function for the page that calls `work` with a module of the page. */
const importing = (work) => `async (name, ...values) => (${work})(await import(document.querySelector("script[type=module]").src.replace("main.js", name)), ...values)`;

/** Waits until the answers of a question count: taps right after it appeared do not. */
export const waitSettled = (tab, where = "") => tab.waitFor(`${where} [data-settled]`);

/** Waits until a session's turn has ended. */
export async function waitIdle(world, id) {
  for (;;) {
    const session = await world.host.call("GET", `sessions/${id}`);
    if (session.turn === "idle" && session.queued === 0) return session;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
