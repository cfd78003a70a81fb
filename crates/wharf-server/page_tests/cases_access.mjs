import fs from "node:fs";
import { assert, openPage, test, waitIdle, waitSettled } from "./suite.mjs";

const phone = async (tab, width = 390) => {
  await tab.size(width, 844, true);
};

test("phone_shows_list_session_and_sheet_in_turn", async (world) => {
  const id = await world.host.session("demo", "edit", { wait: false });
  const tab = await openPage(world);
  await phone(tab);
  await tab.waitFor(`[data-session="${id}"]`);
  await tab.picture(world.picture("phone_list"));
  assert.equal(await tab.run(() => getComputedStyle(document.querySelector(".main")).display), "none");
  assert.ok(await tab.run(() => document.querySelector(".new-link").getBoundingClientRect().top > innerHeight / 2), "the thumb reaches the button for a new session");
  await tab.click(`[data-session="${id}"]`);
  await tab.waitFor(".dock .review");
  await tab.picture(world.picture("phone_session"));
  const small = () => tab.run(() => [...document.querySelectorAll("button, .session-head a, .side-actions a, .item a, select, .attach")].filter((one) => one.getClientRects().length).map((one) => [one.textContent.trim().slice(0, 40), Math.round(one.getBoundingClientRect().height)]).filter(([, height]) => height < 44));
  assert.deepEqual(await small(), [], "targets of at least 44 pixels");
  await tab.click(".dock .review");
  await tab.waitText("Wants to edit", "dialog");
  await tab.picture(world.picture("phone_ask"));
  const options = await tab.run(() => [...document.querySelectorAll("dialog .ask-options button")].map((one) => one.getBoundingClientRect().toJSON()));
  assert.ok(options.every((one) => one.height >= 44), JSON.stringify(options));
  assert.ok(options.slice(1).every((one, place) => one.top - options[place].bottom >= 16), "answers are 16 pixels apart");
  assert.equal(await tab.run(() => document.activeElement.tagName), "H2", "the focus is on the heading, not on an answer");
  await waitSettled(tab, "dialog");
  await tab.click("dialog button", "Reject");
  await tab.wait(() => !document.querySelector("dialog"), "the sheet to close");
  await waitIdle(world, id);
  await tab.click(".back");
  await tab.waitFor(".at-list");
  assert.deepEqual(await small(), [], "targets of at least 44 pixels in the list");
});

test("narrow_page_and_large_zoom_need_no_sideways_scrolling", async (world) => {
  const id = await world.host.session("demo", "tour", { wait: false });
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitFor(".dock");
  const routes = { "#/": ".item", [`#/s/${id}`]: ".dock", [`#/s/${id}/changes`]: ".changes", "#/new": ".places button", "#/devices": ".device", "#/about": ".keys", "#/search": ".search-field" };
  for (const [route, part] of Object.entries(routes)) {
    await tab.run((hash) => { location.hash = hash; }, route);
    for (const width of [320, 640]) {
      await tab.size(width, 640);
      await tab.waitFor(part);
      const wide = await tab.run(() => [document.documentElement, ...document.querySelectorAll(".main, .side, .list, .transcript")].filter((one) => one.scrollWidth > one.clientWidth).map((one) => `${one.className || one.tagName}: ${one.scrollWidth} of ${one.clientWidth}`));
      assert.deepEqual(wide, [], `${route} at ${width}`);
    }
  }
  await world.host.call("POST", `sessions/${id}/kill`);
});

test("everything_works_by_keyboard", async (world) => {
  await world.host.session("demo", "echo one");
  await world.host.session("demo", "echo two");
  const tab = await openPage(world);
  await tab.waitFor(".item");
  // A session that a person has looked at for a second moves in the list.
  await tab.run(() => { document.hasFocus = () => false; });
  await tab.key("j");
  await tab.waitFor(".transcript");
  const first = await tab.run(() => location.hash);
  await tab.key("j");
  await tab.wait((hash) => location.hash !== hash, "the next session", first);
  await tab.key("k");
  await tab.wait((hash) => location.hash === hash, "the session before", first);
  const own = await world.host.session("demo", "echo three");
  await tab.run((hash) => { location.hash = hash; }, `#/s/${own}`);
  await tab.waitText("three", ".row-message");
  await tab.wait(() => document.querySelector(".item.current .item-title")?.textContent === document.querySelector(".session-title h1")?.textContent && document.querySelector("#composer"), "the session before");
  await tab.key("i");
  await tab.wait(() => document.activeElement.id === "composer", "the focus in the field");
  await tab.type("#composer", "echo typed by keys");
  await tab.key("Enter");
  await tab.waitText("typed by keys", ".row-message");
  await tab.key("Escape");
  await tab.wait(() => document.activeElement.id === "transcript", "the focus in the transcript");
  await tab.key("n");
  await tab.waitFor("#first-prompt");
  await tab.key("k", { modifiers: 2 });
  await tab.waitFor("dialog.palette[open] input");
  await tab.type("dialog.palette input", "devices");
  await tab.key("Enter");
  await tab.wait(() => location.hash === "#/devices", "the devices");
  await tab.wait(() => document.querySelector(".devices") && !document.activeElement.closest("input, textarea, dialog"), "the list of devices");
  await tab.key("/");
  await tab.waitFor(".search-field");
  // A question is reached and answered by Tab and Enter.
  const id = await world.host.session("demo", "ask", { wait: false });
  await tab.run((hash) => { location.hash = hash; }, `#/s/${id}`);
  await tab.waitFor(".dock .ask-options button");
  await waitSettled(tab);
  await tab.run(() => document.getElementById("transcript").focus());
  for (let count = 0; count < 30; count += 1) {
    await tab.key("Tab");
    if (await tab.run(() => document.activeElement.textContent === "Reject")) break;
  }
  await tab.key("Enter");
  await tab.waitText("Reject", ".ask-line");
});

test("screen_reader_is_told_of_questions_and_ends", async (world) => {
  const id = await world.host.session("demo");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitFor("#composer");
  await tab.type("#composer", "ask");
  await tab.key("Enter");
  await tab.wait(() => document.getElementById("say-now").textContent.includes("Asks: "), "the question to be told");
  await waitSettled(tab);
  await tab.click(".dock .ask-options button", "Allow once");
  await tab.wait(() => /Finished|Answered/.test(document.getElementById("say-politely").textContent), "the end to be told");
  assert.equal(await tab.run(() => document.querySelector(".transcript").getAttribute("aria-live")), "off");
});

test("axe_finds_nothing_serious", async (world) => {
  const source = process.env.WHARF_AXE ?? "";
  assert.ok(fs.existsSync(source), "WHARF_AXE has to name axe.min.js");
  const axe = fs.readFileSync(source, "utf8");
  await world.host.session("rows", "run");
  const id = await world.host.session("demo", "tour", { wait: false });
  const tab = await openPage(world, `#/s/${id}`);
  await tab.send("Page.setBypassCSP", { enabled: true });
  await tab.waitFor(".dock");
  const login = await world.browser.open();
  await login.go(world.host.url);
  await login.waitFor(".code-field");
  const check = async (page, where) => {
    await page.send("Runtime.evaluate", { expression: axe });
    const found = await page.run(async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
      .filter((one) => ["serious", "critical"].includes(one.impact)).map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 120)).slice(0, 3).join(" | ")}`));
    assert.deepEqual(found, [], where);
  };
  await check(login, "sign-in");
  await login.close();
  const routes = { [`#/s/${id}`]: ".dock", "#/": ".centre", "#/new": ".places button", "#/devices": ".device", "#/search": ".search-field", "#/about": ".keys" };
  for (const scheme of ["light", "dark"]) {
    await tab.colours(scheme);
    for (const [route, part] of Object.entries(routes)) {
      await tab.run((hash) => { location.hash = hash; }, route);
      await tab.waitFor(`.main ${part}`);
      await check(tab, `${route} ${scheme}`);
    }
  }
  await tab.run((hash) => { location.hash = hash; }, `#/s/${id}`);
  await phone(tab);
  await tab.click(".dock .review");
  await tab.waitFor("dialog[open] .ask-options");
  await check(tab, "the sheet on a phone");
  await world.host.call("POST", `sessions/${id}/kill`);
});

test("nothing_asks_for_notifications_before_a_click", async (world) => {
  const tab = await world.browser.open();
  world.tabs.push(tab);
  await tab.send("Page.addScriptToEvaluateOnNewDocument", { source: "window.asked = 0; Notification.requestPermission = async () => { window.asked += 1; return 'denied'; };" });
  await tab.go(await world.host.signInAddress());
  await tab.waitFor(".side-head");
  const id = await world.host.session("demo", "ask", { wait: false });
  await tab.waitText("Tell you when a session needs you?");
  await tab.wait(() => /^\(\d+\) /.test(document.title), "the badge in the title");
  assert.equal(await tab.run(() => window.asked), 0);
  await tab.click(".offer button", "Yes");
  await tab.wait(() => window.asked === 1, "the browser to be asked");
  await world.host.call("POST", `sessions/${id}/kill`);
});

test("finished_session_is_seen_when_a_person_looks_at_it", async (world) => {
  const id = await world.host.session("demo", "echo look at me");
  assert.equal((await world.host.call("GET", `sessions/${id}`)).attention.state, "finished");
  const tab = await openPage(world);
  await tab.waitFor(`.state-finished [data-session="${id}"]`);
  await tab.click(`[data-session="${id}"]`);
  await tab.wait((session) => !document.querySelector(`.state-finished [data-session="${session}"]`), "the mark to go", id);
  assert.equal((await world.host.call("GET", `sessions/${id}`)).attention.state, "quiet");
});

test("reduced_motion_stops_animations", async (world) => {
  const id = await world.host.session("rows", "hold", { wait: false });
  const tab = await openPage(world, `#/s/${id}`);
  await tab.colours("light", [{ name: "prefers-reduced-motion", value: "reduce" }]);
  await tab.waitFor(".stop");
  await tab.wait(() => document.getAnimations().length === 0, "the animations to stop");
  await tab.click(".stop");
  await waitIdle(world, id);
});
