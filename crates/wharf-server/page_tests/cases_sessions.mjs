import { REAL_AGENT } from "./host.mjs";
import { assert, openPage, shownMessages, test, waitIdle, waitSameText, waitSettled } from "./suite.mjs";

test("first_visit_offers_to_start_a_session", async (world) => {
  const tab = await openPage(world, "#/new");
  await tab.waitText("demo", ".start select");
  await tab.type(".start input[list]", "");
  await tab.run((work) => {
    const field = document.querySelector(".start input[list]");
    field.value = work;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }, world.host.work);
  await tab.type("#first-prompt", "echo started from the page");
  await tab.click("button.send", "Start");
  await tab.waitText("started from the page", ".row-message");
  assert.match(await tab.run(() => location.hash), /^#\/s\/sess_/);
  assert.match(await tab.run(() => document.title), /Wharf/);
});

test("answer_reaches_a_second_page_while_it_shows_the_question", async (world) => {
  const id = await world.host.session("demo", "edit", { wait: false });
  const [one, two] = [await openPage(world, `#/s/${id}`), await openPage(world, `#/s/${id}`)];
  for (const tab of [one, two]) await tab.waitText("Wants to edit", ".dock");
  await one.waitFor(".dock .line.added");
  await one.picture(world.picture("ask"));
  await waitSettled(one);
  await one.click(".dock .ask-options button", "Allow once");
  await two.wait(() => !document.querySelector(".dock"), "the question to go");
  await two.waitText("Allow once", ".ask-line");
  await waitIdle(world, id);
  await waitSameText(world, one, id);
  await waitSameText(world, two, id);
});

test("question_is_answered_from_the_list_and_two_taps_answer_one", async (world) => {
  const id = await world.host.session("demo", "ask 2", { wait: false });
  const tab = await openPage(world);
  await tab.click(`.item:has([data-session="${id}"]) .review`);
  await tab.waitText("Question 1 of 2", "dialog");
  await waitSettled(tab, "dialog");
  // The second tap comes in the moment in which the next question is shown.
  await tab.run(() => new Promise((resolve) => {
    const tap = () => document.querySelector("dialog .ask-options button").click();
    const observer = new MutationObserver(() => {
      if (!document.querySelector("dialog")?.textContent.includes("Question 2 of 2")) return;
      observer.disconnect();
      tap();
      resolve();
    });
    observer.observe(document.body, { subtree: true, childList: true, characterData: true });
    tap();
  }));
  await tab.waitText("Question 2 of 2", "dialog");
  const asks = (await world.host.rows(id)).filter((row) => row.kind === "ask");
  assert.deepEqual(asks.map((row) => row.state), ["answered", "open"]);
  await waitSettled(tab, "dialog");
  await tab.click("dialog .ask-options button", "Reject");
  await tab.wait(() => !document.querySelector("dialog"), "the sheet to close");
  await waitIdle(world, id);
});

test("queue_is_edited_moved_removed_and_sent", async (world) => {
  const id = await world.host.session("rows", "hold", { wait: false });
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitFor(".stop");
  for (const text of ["first", "second", "third"]) {
    await tab.type("#composer", text);
    await tab.key("Enter");
    await tab.waitText(text, ".queue");
  }
  await tab.click('.queue button[aria-label="Move up: third"]');
  await tab.wait(() => [...document.querySelectorAll(".queue-text")].map((one) => one.textContent).join() === "first,third,second", "the new order");
  await tab.click('.queue button[aria-label="Edit: first"]');
  await tab.type(".queue-edit textarea", " changed");
  await tab.click(".queue-edit button", "Save");
  await tab.waitText("first changed", ".queue");
  await tab.click('.queue button[aria-label="Remove: second"]');
  await tab.wait(() => document.querySelectorAll(".queue li").length === 2, "two prompts");
  await tab.click('.queue button[aria-label="Send now: third"]');
  await tab.waitText("You said: third", ".row-message");
  await tab.waitText("You said: first changed", ".row-message");
  await waitIdle(world, id);
  await waitSameText(world, tab, id);
});

test("edited_prompt_keeps_its_attachments_and_its_whole_text", async (world) => {
  const id = await world.host.session("rows", "hold", { wait: false });
  const link = { type: "resource_link", name: "notes.md", uri: "file:///notes.md" };
  const long = `long ${"word ".repeat(2000)}end`;
  await world.host.call("POST", `sessions/${id}/prompt`, { prompt: [{ type: "text", text: "first" }, link], queue: true });
  await world.host.call("POST", `sessions/${id}/prompt`, { prompt: long, queue: true });
  const readQueue = async () => (await world.host.call("GET", `sessions/${id}/queue`)).queue;
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitText("first [notes.md]", ".queue");
  await tab.click('.queue button[aria-label="Edit: first [notes.md]"]');
  await tab.type(".queue-edit textarea", " changed");
  await tab.click(".queue-edit button", "Save");
  await tab.waitText("first changed [notes.md]", ".queue");
  assert.deepEqual((await readQueue())[0].attachments, ["notes.md"]);
  await tab.click(".queue li:nth-child(2) button[title=Edit]");
  await tab.waitFor(".queue-edit textarea");
  assert.equal(await tab.run(() => document.querySelector(".queue-edit textarea").value), long);
  await tab.click(".queue-edit button", "Cancel");
  await tab.type("#composer", "");
  await tab.run(() => document.querySelector("#composer").focus());
  await tab.key("ArrowUp");
  await tab.wait((text) => document.querySelector("#composer").value === text, "the whole prompt in the field", long);
  assert.equal((await readQueue()).length, 1);
});

test("turn_is_stopped_and_a_deaf_agent_by_force", async (world) => {
  const id = await world.host.session("demo", "hang", { wait: false });
  const tab = await openPage(world, `#/s/${id}`);
  await tab.click(".stop");
  await tab.waitText("Cancelled", ".row-turn_end");
  await world.host.prompt(id, "hang hard", false);
  await tab.click(".stop", "Stop");
  await tab.click(".stop", "Force stop");
  await tab.wait(() => document.querySelectorAll(".row-turn_end").length === 2, "the end by force");
});

test("reload_in_mid_stream_loses_nothing", async (world) => {
  const id = await world.host.session("demo", "tick 60 20", { wait: false });
  const tab = await openPage(world, `#/s/${id}`);
  for (let round = 0; round < 4; round += 1) {
    await tab.waitFor(".row-message");
    await tab.reload();
  }
  await waitIdle(world, id);
  await waitSameText(world, tab, id);
});

/** Kills the host at five random moments of a turn, and compares what the page shows with the rows of the host. */
async function killInMidStream(world, agent, prompt) {
  const id = await world.host.session(agent, prompt);
  const tab = await openPage(world, `#/s/${id}`);
  const seed = Number(process.env.WHARF_WALK_SEED ?? Math.floor(Math.random() * 1e9));
  console.log(`  seed ${seed}`);
  let state = seed;
  const random = () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
  for (let round = 0; round < 5; round += 1) {
    await world.host.prompt(id, prompt, false);
    await new Promise((resolve) => setTimeout(resolve, 30 + 700 * random()));
    await world.host.kill();
    await world.host.run();
    await tab.wait(() => !document.querySelector(".banner"), "the connection");
  }
  await world.host.prompt(id, prompt);
  await waitIdle(world, id);
  await waitSameText(world, tab, id);
  assert.ok((await shownMessages(tab)).length > 100);
  // Requests that met no host are in the console.
  tab.errors = tab.errors.filter((error) => !/ERR_CONNECTION_|ERR_SOCKET_|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|network error/.test(error));
}

test("host_killed_in_mid_stream_loses_nothing", (world) => killInMidStream(world, "demo", "tick 40 20"));

// WHARF_PAGE_AGENT="COMMAND" runs it with another agent, too, and WHARF_PAGE_AGENT_PROMPT sets what that is told.
if (REAL_AGENT) test("host_killed_in_mid_stream_of_a_real_agent_loses_nothing", (world) => killInMidStream(world, "real", process.env.WHARF_PAGE_AGENT_PROMPT ?? "Count slowly from 1 to 40."));

test("page_says_that_the_host_is_gone_and_keeps_the_draft", async (world) => {
  const id = await world.host.session("demo", "echo here");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.type("#composer", "a thought that is not finished");
  await world.host.kill();
  await tab.waitText("The host does not answer", ".banner");
  await tab.waitText("sent once, when the host answers", ".composer");
  await world.host.run();
  // The page may have found the host by itself.
  await tab.run(() => document.querySelector(".banner button")?.click());
  await tab.wait(() => !document.querySelector(".banner"), "the connection");
  await tab.reload();
  await tab.wait(() => document.querySelector("#composer")?.value === "a thought that is not finished", "the draft");
  const twin = await openPage(world, `#/s/${id}`, { context: tab.context });
  await twin.wait(() => document.querySelector("#composer")?.value === "a thought that is not finished", "the draft in another tab");
  await twin.type("#composer", " more");
  await tab.wait(() => document.querySelector("#composer")?.value.endsWith(" more"), "the newer draft");
  tab.errors = tab.errors.filter((error) => !/ERR_|network error/.test(error));
});

test("search_finds_a_row_and_opens_it", async (world) => {
  const id = await world.host.session("rows", "rows 400");
  await world.host.prompt(id, "say a needle in the haystack");
  await world.host.prompt(id, "rows 300");
  const tab = await openPage(world, "#/search");
  await tab.type("input[type=search]", "needle haystack");
  await tab.click(".hits a", "needle");
  await tab.wait(() => [...document.querySelectorAll(".marked")].some((row) => row.textContent.includes("needle") && row.getBoundingClientRect().top < innerHeight), "the row in view");
  await tab.click(".jump");
  await tab.waitText("Message 298", ".row-message");
  await tab.key("f", { modifiers: 2 });
  await tab.type("#find-field", "needle");
  await tab.waitText("2 hits", ".find");
});

test("tools_images_and_failures_are_shown", async (world) => {
  const id = await world.host.session("rows", "run");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitText("error: unused variable", ".tool-failed");
  await tab.wait(() => document.querySelector(".image img")?.naturalWidth === 2, "the image");
  await tab.click(".tool-head", "cargo test");
  await tab.waitText("running 3 tests", ".tool");
});

test("session_is_renamed_muted_archived_and_shows_its_changes", async (world) => {
  const id = await world.host.session("demo", "edit", { wait: false });
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitFor(".dock");
  await waitSettled(tab);
  await tab.click(".dock .ask-options button", "Allow once");
  await waitIdle(world, id);
  const menu = async (name) => {
    await tab.click('.menu button[aria-label="More"]');
    await tab.click(".menu-list button", name);
  };
  await menu("Rename");
  await tab.waitFor("dialog[open] input");
  await tab.run(() => document.querySelector("dialog input").select());
  await tab.type("dialog input", "A better name");
  await tab.key("Enter");
  await tab.waitText("A better name", ".session-title");
  await menu("Mute");
  await tab.wait(() => document.querySelector(".item.current .muted-mark"), "the mark of a muted session");
  await menu("Archive");
  await tab.waitText("Archived", ".list");
  await menu("Changed files");
  await tab.click(".changed-file button");
  await tab.waitFor(".changed-file .line.added");
  await tab.picture(world.picture("changes"));
});

test("commands_and_files_are_completed", async (world) => {
  const id = await world.host.session("demo");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.type("#composer", "/ec");
  await tab.waitText("/echo", ".completion");
  await tab.key("Tab");
  await tab.type("#composer", "look at @hel");
  await tab.waitText("@hello.py", ".completion");
  await tab.key("Enter");
  await tab.wait(() => document.querySelector("#composer").value === "/echo look at @hello.py ", "the completed text");
  await tab.key("Enter");
  await tab.waitText("look at @hello.py", ".row-prompt");
  const prompt = (await world.host.rows(id)).find((row) => row.kind === "prompt");
  assert.ok(prompt.parts.some((part) => part.type === "file" && part.name === "hello.py"), JSON.stringify(prompt.parts));
});

test("image_is_pasted_and_sent", async (world) => {
  const id = await world.host.session("rows");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitFor("#composer");
  await tab.run(async () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 20, height: 20 });
    const blob = await new Promise((resolve) => canvas.toBlob(resolve));
    const data = new DataTransfer();
    data.items.add(new File([blob], "shot.png", { type: "image/png" }));
    document.querySelector("#composer").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  });
  await tab.waitFor(".attachment img");
  await tab.type("#composer", "what is this?");
  await tab.key("Enter");
  await tab.wait(() => document.querySelector(".row-prompt .image img")?.naturalWidth === 20, "the image in the prompt");
});

test("text_grows_without_losing_the_selection", async (world) => {
  const id = await world.host.session("rows", "grow", { wait: false });
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitText("word99", ".row-message");
  const picked = await tab.run(() => {
    const node = document.createTreeWalker(document.querySelector(".row-message .markdown"), NodeFilter.SHOW_TEXT).nextNode();
    const range = document.createRange();
    range.setStart(node, 0);
    range.setEnd(node, 20);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    return getSelection().toString();
  });
  assert.equal(picked.length, 20);
  // The agent goes on when it is cancelled: with the same message, a tool call and another message.
  await world.host.call("POST", `sessions/${id}/interrupt`);
  await tab.waitText("word499", ".row-message");
  await waitIdle(world, id);
  await waitSameText(world, tab, id);
  assert.equal(await tab.run(() => getSelection().toString()), picked);
  assert.ok((await shownMessages(tab)).length > 1000);
  assert.equal(await tab.run(() => document.querySelector(".jump") === null), true, "the end is followed");
});

test("mode_is_switched", async (world) => {
  const id = await world.host.session("demo");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitFor(".setting select");
  await tab.run(() => {
    const select = document.querySelector(".setting select");
    select.value = "auto";
    select.dispatchEvent(new Event("change", { bubbles: true }));
  });
  await tab.waitText("auto", ".row-notice");
  assert.equal((await world.host.call("GET", `sessions/${id}/settings`)).modes.current, "auto");
});
