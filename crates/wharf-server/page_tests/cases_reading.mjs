// Reading a transcript: what is new, what a click opens, how a screen reader hears it.
import fs from "node:fs";
import { assert, openPage, test, waitForModule, waitIdle, waitSettled, withModule } from "./suite.mjs";

test("line_marks_what_is_new_since_the_person_looked", async (world) => {
  const id = await world.host.session("rows", "say seen before");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitText("seen before", ".row-message");
  assert.equal(await tab.run(() => document.querySelector(".unread-line")), null, "a first look has no line");
  await tab.wait((session) => !document.querySelector(`.state-finished [data-session="${session}"]`), "the look to count", id);
  await tab.run(() => { location.hash = "#/about"; });
  await tab.waitText("Libraries");
  // A prompt that the person sends elsewhere counts as a look at what was before it.
  await world.host.prompt(id, "say came while away");
  await tab.run((hash) => { location.hash = hash; }, `#/s/${id}`);
  await tab.waitText("new since you looked", ".unread-line");
  const order = await tab.run(() => [...document.querySelectorAll(".row-message, .unread-line")].map((one) => one.textContent.slice(0, 40)));
  assert.deepEqual(order.map((text) => text.replace(/, .*/, "").replace(/^Agent/, "")), ["seen before", "new since you looked", "came while away"]);
  assert.match(order[1], /\d/, "the line tells the time");
});

test("rows_that_come_while_a_person_looks_are_not_marked_as_new", async (world) => {
  const id = await world.host.session("rows", "say before");
  await world.host.call("PATCH", `sessions/${id}`, { title: "counts as a look" });
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitText("before", ".row-message");
  await world.host.prompt(id, "say while looking");
  await tab.waitText("while looking", ".row-message");
  assert.equal(await tab.run(() => document.querySelector(".unread-line")), null);
});

test("rows_that_come_while_reading_above_are_counted", async (world) => {
  const id = await world.host.session("rows", "rows 200");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitText("Message 198", ".row-message");
  await tab.run(() => { document.querySelector(".transcript").scrollTop -= 700; });
  await tab.waitText("Newest", ".jump");
  await world.host.prompt(id, "say something new");
  // A prompt, an answer and the end of the turn.
  await tab.waitText("3 new", ".jump");
  await tab.click(".jump");
  await tab.wait(() => !document.querySelector(".jump"), "the end");
});

test("scroll_back_in_the_frame_in_which_text_grows_stops_following", async (world) => {
  const id = await world.host.session("rows", "rows 200");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitText("Message 198", ".row-message");
  // In this frame the event of the scroll comes only after the growth is seen.
  await tab.run(() => new Promise((resolve) => requestAnimationFrame(() => {
    const scroller = document.querySelector(".transcript");
    scroller.scrollTop -= 700;
    scroller.querySelector(".transcript-rows").style.paddingBottom = "200px";
    requestAnimationFrame(() => requestAnimationFrame(resolve));
  })));
  await tab.waitText("Newest", ".jump");
  assert.ok(await tab.run(() => { const one = document.querySelector(".transcript"); return one.scrollHeight - one.scrollTop - one.clientHeight > 500; }), "the reader is where they were");
});

test("session_that_is_shown_right_after_the_load_opens_at_its_end", async (world) => {
  const id = await world.host.session("rows", "line 30000");
  await world.host.prompt(id, "run");
  const tab = await openPage(world);
  // On a fast machine all of this happens in the first moments after the navigation.
  await tab.send("Page.addScriptToEvaluateOnNewDocument", { source: "const now = performance.now.bind(performance); performance.now = () => now() / 1000;" });
  await tab.run((hash) => { location.hash = hash; }, `#/s/${id}`);
  await tab.reload();
  await tab.wait(() => {
    const scroller = document.querySelector(".transcript");
    const hasImage = document.querySelector(".image img")?.naturalWidth === 2;
    return hasImage && scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 5 && !document.querySelector(".jump");
  }, "the end in view and followed");
});

test("opened_card_does_not_move_what_is_above_it", async (world) => {
  const id = await world.host.session("rows", "line 30000");
  await world.host.prompt(id, "run");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.wait(() => document.querySelector(".image img")?.naturalWidth === 2 && document.querySelector(".jump") === null, "the end");
  /** Waits until the card stands still, and returns where; 0 is no place for it. */
  const settledTop = () => tab.wait(async () => {
    const measure = () => [...document.querySelectorAll(".tool-head")].find((one) => one.textContent.includes("cargo test")).getBoundingClientRect().top;
    const top = measure();
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    return top === measure() ? top : null;
  }, "the card to stand still");
  const before = await settledTop();
  await tab.click(".tool-head", "cargo test");
  await tab.waitText("running 3 tests", ".tool-body");
  const after = await settledTop();
  assert.ok(Math.abs(after - before) <= 2, `the card moved from ${before} to ${after}`);
});

test("path_of_a_changed_file_leads_to_its_diff", async (world) => {
  const id = await world.host.session("rows", "name src/parser.rs");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitFor(".path-link");
  assert.deepEqual(await tab.run(() => [...document.querySelectorAll(".path-link")].map((one) => one.textContent)), ["src/parser.rs"], "other paths stay text");
  await tab.click(".path-link");
  await tab.waitFor(".changed-file .line.added");
  await tab.click("a", "Back to the session");
  await tab.click(".turn-end a", "1 file");
  await tab.waitFor(".changed-file .line.added");
});

test("answered_session_stays_in_its_place_with_the_answer", async (world) => {
  const id = await world.host.session("demo", "ask", { wait: false });
  const tab = await openPage(world);
  await tab.click(`.item:has([data-session="${id}"]) .review`);
  await waitSettled(tab, "dialog");
  // The answer is shown for some seconds only.
  await tab.run(() => {
    const note = () => { window.hasAnswer ||= Boolean(document.querySelector(".group-needs .item.state-answered")?.textContent.includes("Allow once")); };
    new MutationObserver(note).observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
  });
  await tab.click("dialog .ask-options button", "Allow once");
  await tab.wait(() => window.hasAnswer, "the answer in the list");
  await waitIdle(world, id);
  await tab.wait(() => !document.querySelector(".state-answered"), "the answer to go");
});

test("sessions_of_agents_stand_below_the_session_that_started_them", async (world) => {
  await world.host.session("demo", "echo x");
  const tab = await openPage(world);
  await tab.waitFor(".item");
  // The host may tell of real sessions at any time, and then they are in the list again.
  const listed = await waitForModule(tab, "store.js", async ({ app, changed }) => {
    const make = (id, parentSessionId) => ({ id, parentSessionId, title: id, adapterSlug: "demo", workspaceSlug: "w", cwd: "/w", status: "running", turn: "idle", attention: { state: "quiet", since: `2026-01-01T00:00:0${id.length}.000Z` } });
    const made = [make("a"), make("bbb"), make("aa", "a"), make("aaaa", "aa"), make("orphan", "gone")];
    app.sessions = new Map(made.map((one) => [one.id, one]));
    changed();
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    const shown = [...document.querySelectorAll(".item")].map((one) => [one.querySelector(".item-title").textContent, Math.round(one.getBoundingClientRect().left)]);
    return shown.length === made.length && shown.every(([name]) => app.sessions.has(name)) ? shown : null;
  }, "the made sessions alone");
  assert.deepEqual(listed.map(([name]) => name), ["orphan", "bbb", "a", "aa", "aaaa"]);
  const left = new Map(listed);
  assert.ok(left.get("a") < left.get("aa") && left.get("aa") < left.get("aaaa") && left.get("orphan") === left.get("a"), JSON.stringify(listed));
});

test("list_keeps_its_order_for_a_moment_after_a_touch", async (world) => {
  const first = await world.host.session("demo", "echo one");
  const tab = await openPage(world);
  await tab.waitFor(`[data-session="${first}"]`);
  const order = await withModule(tab, "store.js", async ({ app, changed }, id) => {
    // The moment lasts until the list has been looked at.
    const now = Date.now;
    const touchedAt = now();
    Date.now = () => touchedAt;
    document.querySelector(".list").dispatchEvent(new PointerEvent("pointerdown", { bubbles: true }));
    app.sessions.set("sess_new", { ...app.sessions.get(id), id: "sess_new", title: "newer", attention: { ...app.sessions.get(id).attention, since: new Date().toISOString() } });
    changed();
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    const shown = [...document.querySelectorAll(".item a")].map((one) => one.dataset.session);
    Date.now = now;
    return shown;
  }, first);
  assert.equal(order.includes("sess_new"), false, "what is under the finger stays there");
  await tab.waitFor('[data-session="sess_new"]');
});

test("question_answered_elsewhere_is_told_and_a_finger_on_it_answers_nothing", async (world) => {
  const id = await world.host.session("demo", "ask 2", { wait: false });
  const tab = await openPage(world, `#/s/${id}`);
  await tab.size(390, 844, true);
  await tab.click(".dock .review");
  await tab.waitText("Question 1 of 2", "dialog");
  await waitSettled(tab, "dialog");
  const place = await tab.run(() => {
    const box = document.querySelector("dialog .ask-options button").getBoundingClientRect();
    return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  });
  await tab.send("Input.dispatchTouchEvent", { type: "touchStart", touchPoints: [place] });
  const [ask] = (await world.host.call("GET", `sessions/${id}/asks`)).asks;
  // The notice is shown for a moment only.
  await tab.run(() => {
    window.notices = "";
    const note = () => { window.notices += document.querySelector('dialog [role="alert"]')?.textContent ?? ""; };
    new MutationObserver(note).observe(document.body, { subtree: true, childList: true, characterData: true });
  });
  await world.host.call("POST", `sessions/${id}/asks/${ask.askId}`, { optionId: "reject_once" });
  await tab.wait(() => window.notices.includes("answered elsewhere"), "the notice");
  await tab.waitText("Question 2 of 2", "dialog");
  await tab.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
  await waitSettled(tab, "dialog");
  const asks = (await world.host.rows(id)).filter((row) => row.kind === "ask");
  assert.deepEqual(asks.map((row) => [row.state, row.answer?.by?.name]), [["answered", "editor"], ["open", undefined]]);
  await world.host.call("POST", `sessions/${id}/kill`);
});

test("link_of_a_notification_opens_the_question_on_a_phone", async (world) => {
  const id = await world.host.session("demo", "edit", { wait: false });
  const tab = await openPage(world);
  await tab.size(390, 844, true);
  await tab.waitFor(`.state-needs_answer [data-session="${id}"]`);
  const row = (await world.host.call("GET", `sessions/${id}`)).attention.row;
  await tab.run((hash) => { location.hash = hash; }, `#/s/${id}/r/${row}`);
  await tab.waitText("Wants to edit", "dialog.sheet");
  await world.host.call("POST", `sessions/${id}/kill`);
});

test("single_letters_can_be_switched_off", async (world) => {
  const tab = await openPage(world, "#/about");
  await tab.click(".check input");
  await tab.run(() => document.activeElement.blur());
  await tab.key("n");
  await tab.key("k", { modifiers: 2 });
  await tab.waitFor("dialog.palette");
  assert.equal(await tab.run(() => location.hash), "#/about", "n did nothing");
  await tab.key("Escape");
  await tab.wait(() => !document.querySelector("dialog"), "the palette to close");
  await tab.click(".check input");
  await tab.run(() => document.activeElement.blur());
  await tab.key("n");
  await tab.waitFor("#first-prompt");
});

test("high_contrast_colours_keep_what_colour_tells", async (world) => {
  const id = await world.host.session("demo", "edit", { wait: false });
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitFor(".dock .line.added");
  await tab.colours("light", [{ name: "forced-colors", value: "active" }]);
  await tab.wait(() => matchMedia("(forced-colors: active)").matches, "forced colours");
  const shown = await tab.run(() => ({
    current: getComputedStyle(document.querySelector(".item.current")).outlineStyle,
    added: getComputedStyle(document.querySelector(".line.added")).borderInlineStartStyle,
    removed: getComputedStyle(document.querySelector(".line.removed")).borderInlineStartStyle,
    words: [...document.querySelectorAll(".line.added .hidden-text")].every((one) => one.textContent === "added: "),
  }));
  assert.deepEqual(shown, { current: "solid", added: "solid", removed: "dotted", words: true });
  await tab.picture(world.picture("forced_colours"));
  await world.host.call("POST", `sessions/${id}/kill`);
});

/** Returns what a screen reader gets: the role and the name of each node of a part of the page, times and ids left out. */
async function readAloud(tab, selector) {
  const { root } = await tab.send("DOM.getDocument", {});
  const { nodeId } = await tab.send("DOM.querySelector", { nodeId: root.nodeId, selector });
  const { node } = await tab.send("DOM.describeNode", { nodeId });
  const { nodes } = await tab.send("Accessibility.getFullAXTree", {});
  const byId = new Map(nodes.map((one) => [one.nodeId, one]));
  const lines = [];
  const add = (one, depth) => {
    if (one.role?.value === "StaticText" && lines.at(-1)?.startsWith(`${"  ".repeat(depth)}text "`)) {
      lines[lines.length - 1] = `${lines.at(-1).slice(0, -1)}${one.name.value}"`;
      return;
    }
    const [role, name] = [one.role?.value, one.name?.value ?? ""];
    const isSaid = !one.ignored && !["generic", "none", "InlineTextBox"].includes(role) && !(role === "StaticText" && !name.trim());
    const expanded = one.properties?.find((property) => property.name === "expanded");
    if (isSaid) lines.push(`${"  ".repeat(depth)}${role === "StaticText" ? "text" : role}${name ? ` "${name}"` : ""}${expanded ? (expanded.value.value ? " open" : " closed") : ""}`);
    // A node that is named by its own text needs no second line for it.
    const isNamed = isSaid && ["heading", "button", "link", "option"].includes(role);
    for (const child of (isNamed ? [] : one.childIds ?? []).map((id) => byId.get(id)).filter(Boolean)) add(child, depth + (isSaid ? 1 : 0));
  };
  add(nodes.find((one) => one.backendDOMNodeId === node.backendNodeId), 0);
  // Times differ from run to run, and short ones are not shown.
  const masks = [[/\d+:\d\d( [AP]M)?/g, "TIME"], [/[\d.]+ (s|min)\b/g, "DURATION"], [/(Thought) for DURATION/g, "$1"], [/ DURATION"/g, '"'], [/(The tour) (now|\d+s|\d+m) /g, "$1 AGE "]];
  return `${masks.reduce((text, [from, to]) => text.replace(from, to), lines.join("\n"))}\n`;
}

/** Compares with the file of that name. WHARF_PAGE_SNAPSHOTS=FOLDER writes the files there instead. */
function compareSnapshot(name, text) {
  const folder = process.env.WHARF_PAGE_SNAPSHOTS;
  if (folder) fs.writeFileSync(`${folder}/${name}.txt`, text);
  assert.equal(text, fs.readFileSync(new URL(`./snapshots/${name}.txt`, import.meta.url), "utf8"), `the tree differs from snapshots/${name}.txt`);
}

test("screen_reader_hears_transcript_question_and_list_in_words", async (world) => {
  const id = await world.host.session("demo", "tour", { wait: false });
  const tab = await openPage(world);
  await tab.waitFor(`.state-needs_answer [data-session="${id}"]`);
  // A title that a person gives counts as a look at all that was before.
  await world.host.call("PATCH", `sessions/${id}`, { title: "The tour" });
  await tab.waitText("The tour", ".list");
  await tab.run((hash) => { location.hash = hash; }, `#/s/${id}`);
  await tab.send("Accessibility.enable");
  await tab.send("DOM.enable");
  await tab.waitText("Wants to edit", ".dock");
  await tab.waitFor(".dock [data-settled]");
  compareSnapshot("question", await readAloud(tab, ".dock"));
  compareSnapshot("list_item", await readAloud(tab, `.item:has([data-session="${id}"])`));
  await tab.click(".dock .ask-options button", "Allow once");
  await waitIdle(world, id);
  await tab.waitFor(".row-turn_end");
  compareSnapshot("transcript", await readAloud(tab, ".transcript"));
});
