// What the page shows while the way to the host is bad, or events come late, twice or in pieces.
import { startBehindProxy } from "./proxy.mjs";
import { assert, openPage, test, waitForModule, waitIdle, waitMessage, waitSameText, withModule } from "./suite.mjs";

/** Opens a session behind a proxy that holds streams back, with the long waits of the page's streams made short. */
async function openHeldBack(world, holdAfter, shortened) {
  const behind = await startBehindProxy({ holdAfter });
  const id = await behind.host.session("rows", "say before");
  const tab = await world.browser.open();
  const source = `const wait = window.setTimeout; window.setTimeout = (work, delay, ...rest) => wait(work, (!window.isFlowing && /event_stream\\.js/.test(new Error().stack) && (${JSON.stringify(shortened)})[delay]) || delay, ...rest);`;
  await tab.send("Page.addScriptToEvaluateOnNewDocument", { source });
  await tab.go(await behind.signIn());
  await tab.waitFor(".side-head");
  await tab.run((hash) => { location.hash = hash; }, `#/s/${id}`);
  await tab.waitText("before", ".row-message");
  await tab.waitText("holds live data back", ".banner");
  return { ...behind, id, tab };
}

for (const [name, holdAfter, shortened] of [["everything", 0, { 10000: 300 }], ["all_but_the_beginning", 60_000, { 25000: 700 }]]) {
  test(`page_says_that_a_proxy_holds_back_${name}_and_goes_on_by_polls`, async (world) => {
    const { host, proxy, id, tab } = await openHeldBack(world, holdAfter, shortened);
    for (const text of ["first", "second", "third"]) {
      await tab.type("#composer", `say ${text} text`);
      await tab.key("Enter");
      await tab.waitText(`${text} text`, ".row-message");
    }
    await waitSameText({ ...world, host }, tab, id);
    await host.session("demo", "echo another session");
    const streams = () => tab.run(() => performance.getEntriesByType("resource").filter((entry) => /sessions\/stream/.test(entry.name) && !/wait=/.test(entry.name)).length);
    const tried = await streams();
    await tab.click(".item a", "another session");
    await tab.waitText("another session", ".row-message");
    assert.equal(await streams(), tried, "no stream is tried for another session");
    assert.deepEqual(tab.errors, []);
    await tab.close();
    proxy.stop();
    await host.stop();
  });
}

test("notice_of_a_proxy_goes_when_streams_flow_again", async (world) => {
  const { host, proxy, id, tab } = await openHeldBack(world, 0, { 10000: 2000 });
  proxy.holds = false;
  // The page tries a stream again after five minutes; that time is let pass at once, and again if a slow machine made the try fail.
  await tab.run(() => {
    window.isFlowing = true;
    const now = Date.now;
    const begin = performance.now();
    Date.now = () => now() + 300_000 * (1 + Math.floor((performance.now() - begin) / 30_000));
  });
  await host.prompt(id, "say streamed again");
  await tab.wait(() => !document.querySelector(".banner"), "the notice to go");
  await tab.waitText("streamed again", ".row-message");
  await tab.close();
  proxy.stop();
  await host.stop();
});

/** Holds the answers of requests to addresses with this text. Returns what lets them go. */
async function holdAnswers(tab, text) {
  const held = [];
  let onHeld = () => {};
  const first = new Promise((resolve) => { onHeld = resolve; });
  tab.onEvent = (method, params) => {
    if (method !== "Fetch.requestPaused") return;
    held.push(params.requestId);
    onHeld();
  };
  await tab.send("Fetch.enable", { patterns: [{ urlPattern: `*${text}*`, requestStage: "Response" }] });
  // The browser holds requests from the next but one on.
  await tab.run(() => fetch("manifest.webmanifest").then((response) => response.text()));
  return {
    first,
    async release(fails = false) {
      for (const requestId of held.splice(0)) {
        await tab.send(fails ? "Fetch.failRequest" : "Fetch.continueRequest", { requestId, ...(fails ? { errorReason: "ConnectionReset" } : {}) });
      }
      await tab.send("Fetch.disable");
    },
  };
}

/** Waits for a text in the transcript, in view or not. */
const waitContent = (tab, text) => tab.wait((wanted) => document.querySelector(".transcript").textContent.includes(wanted), `${text} in the transcript`, text);
const scrollUp = (tab) => tab.run(() => { document.querySelector(".transcript").scrollTop = 0; });

test("tool_that_ends_late_is_current_when_its_older_page_comes", async (world) => {
  const id = await world.host.session("rows", "tool late in_progress");
  await world.host.prompt(id, "rows 120");
  const tab = await openPage(world);
  const older = await holdAnswers(tab, "/rows?before");
  await tab.run((hash) => { location.hash = hash; }, `#/s/${id}`);
  await tab.waitText("Message 118", ".row-message");
  await scrollUp(tab);
  await older.first;
  // The answer on its way is older than what the stream tells now.
  await world.host.prompt(id, "update late the late output");
  await waitContent(tab, "update late the late output");
  await waitForModule(tab, "store.js", ({ app }) => app.transcript.unseenRevs.size > 0, "the stream to tell of the row");
  await older.release();
  await tab.wait(() => [...document.querySelectorAll(".tool")].find((one) => one.textContent.includes("Tool late"))?.className.includes("tool-completed"), "the tool to be completed");
  await tab.click(".tool-head", "Tool late");
  await tab.waitText("the late output", ".tool-body");
});

test("older_page_that_is_lost_is_asked_for_again", async (world) => {
  const id = await world.host.session("rows", "rows 400");
  const tab = await openPage(world);
  const older = await holdAnswers(tab, "/rows?before");
  await tab.run((hash) => { location.hash = hash; }, `#/s/${id}`);
  await tab.waitText("Message 398", ".row-message");
  await scrollUp(tab);
  await older.first;
  await older.release(true);
  await waitMessage(tab, "does not answer");
  // The page may ask again by itself when it is scrolled: then the button is gone.
  await tab.wait(() => {
    document.querySelector(".older button")?.click();
    return document.querySelector(".transcript").textContent.includes("Message 290.");
  }, "the older rows");
  tab.errors = tab.errors.filter((error) => !/ERR_CONNECTION_RESET|ERR_FAILED/.test(error));
});

test("append_that_follows_a_missed_one_makes_the_page_read_the_row_again", async (world) => {
  const id = await world.host.session("rows", "say the whole text");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitText("the whole text", ".row-message");
  const outcome = await withModule(tab, "store.js", async ({ app }) => {
    const row = app.transcript.rows.find((one) => one.kind === "message");
    const read = new Promise((resolve) => {
      const before = app.transcript.readRow;
      app.transcript.readRow = (rowId) => {
        resolve(rowId);
        return before(rowId);
      };
    });
    const append = { id: row.id, from: row.rev + 1, rev: row.rev + 2, part: 0, text: " NOT IN ORDER" };
    app.transcript.apply({ event: "append", data: append }, null);
    return (await read) === row.id;
  });
  assert.equal(outcome, true, "the row was read again");
  await waitSameText(world, tab, id);
});

test("emoji_in_pieces_is_whole_at_the_end", async (world) => {
  const id = await world.host.session("rows");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitFor("#composer");
  await world.host.prompt(id, "halves");
  await tab.waitText("a 🚀 b 👩‍👩‍👧 c", ".row-message");
  await waitSameText(world, tab, id);
});

test("end_of_a_long_answer_is_shown_while_it_streams", async (world) => {
  const id = await world.host.session("rows", "long", { wait: false });
  const tab = await openPage(world, `#/s/${id}`);
  const lastShown = (line) => tab.wait((wanted) => document.querySelector(".row-message")?.innerText.trimEnd().endsWith(wanted), `line ${line} at the end`, `Line ${line} of a **long** answer, with some words.`);
  await lastShown(1199);
  await tab.waitText("Line 0 of a long answer", ".row-message");
  await tab.waitText("Show the whole text", ".row-message");
  assert.equal(await tab.run(() => document.querySelector(".jump") === null), true, "the end is followed");
  await world.host.call("POST", `sessions/${id}/interrupt`);
  await lastShown(1209);
  await waitIdle(world, id);
  await lastShown(1209);
  const tail = (await world.host.rows(id)).find((row) => row.kind === "message").parts[0].cut.tail;
  assert.equal(await tab.run(() => document.querySelector(".text-tail").textContent), tail, "the rows say the same");
  await tab.picture(world.picture("long_answer"));
});

test("page_that_crashed_keeps_the_draft", async (world) => {
  const id = await world.host.session("rows", "say here");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.type("#composer", "typed before the crash");
  await tab.wait(() => Object.keys(localStorage).some((key) => key.includes(":draft:")), "the draft to be kept");
  const twin = await openPage(world, `#/s/${id}`, { context: tab.context });
  await twin.waitFor("#composer");
  tab.send("Page.crash").catch(() => {});
  await twin.wait(() => document.querySelector("#composer").value === "typed before the crash", "the draft");
  await twin.key("Tab");
  await twin.run(() => document.querySelector("#composer").focus());
  await twin.key("Enter");
  await twin.waitText("You said: typed before the crash", ".row-message");
  await waitIdle(world, id);
  world.tabs = world.tabs.filter((one) => one !== tab);
  await tab.close().catch(() => {});
});

test("prompt_whose_answer_was_lost_is_sent_again_as_the_same_one", async (world) => {
  const id = await world.host.session("rows", "say here");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.type("#composer", "only once");
  const answer = await holdAnswers(tab, "/prompt");
  await tab.key("Enter");
  await answer.first;
  await tab.waitText("sending…", ".outgoing");
  await answer.release(true);
  await tab.wait(() => !document.querySelector(".outgoing"), "the prompt to be taken");
  await waitIdle(world, id);
  await waitContent(tab, "You said: only once");
  assert.equal((await world.host.rows(id)).filter((row) => row.kind === "prompt").length, 2, "the first prompt and one more");
  tab.errors = tab.errors.filter((error) => !/ERR_CONNECTION_RESET|ERR_FAILED/.test(error));
});

test("draft_that_was_sent_is_gone_in_every_tab", async (world) => {
  const id = await world.host.session("rows", "say here");
  const tab = await openPage(world, `#/s/${id}`);
  const twin = await openPage(world, `#/s/${id}`, { context: tab.context });
  await twin.waitFor("#composer");
  await tab.type("#composer", "from one tab");
  await twin.wait(() => document.querySelector("#composer").value === "from one tab", "the draft in the other tab");
  await tab.run(() => document.querySelector("#composer").focus());
  await tab.key("Enter");
  await twin.wait(() => document.querySelector("#composer").value === "", "the draft to go");
  await waitIdle(world, id);
});
