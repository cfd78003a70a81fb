// A turn that fails says once what is wrong and what helps, and can be tried again.
import fs from "node:fs";
import { assert, openPage, test, waitIdle, waitMessage, withModule } from "./suite.mjs";

/** Returns the times that the page says this, in the session that is open. */
const count = (tab, text) => tab.run((wanted) => document.querySelector(".main").innerText.split(wanted).length - 1, text);

test("login_that_is_needed_is_told_once_with_its_command_and_can_be_tried_again", async (world) => {
  const { id } = await world.host.call("POST", "sessions/agent", { adapter: "members", cwd: world.host.work, prompt: "say hello" }, { Prefer: "respond-async" });
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitText("members is not signed in", ".failure");
  await tab.waitText("wharf login members", ".failure code");
  await tab.waitText("not signed in: wharf login members", ".item");
  assert.deepEqual([await count(tab, "not signed in"), await count(tab, "Authentication required")], [1, 0], "it is told once");
  assert.equal(await tab.run(() => document.querySelectorAll(".main .bad, .main .notice-error, .main .failed-word").length), 0, "nothing is red");
  await tab.picture(world.picture("failure_login"));
  fs.writeFileSync(world.host.loginFile, "");
  await tab.click(".failure .again");
  await tab.waitText("hello", ".row-message");
  assert.notEqual(await tab.run(() => location.hash), `#/s/${id}`, "the agent that never ran gets a new session");
  assert.equal((await world.host.call("GET", `sessions/${id}`)).archived, true);
});

test("login_that_ran_out_in_a_session_is_tried_again_in_it", async (world) => {
  const id = await world.host.session("rows", "fail -32000 Authentication required");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitText("rows is not signed in", ".failure");
  assert.equal(await count(tab, "Authentication required"), 1, "only the prompt of this test says so");
  await tab.click(".failure .again");
  await tab.wait(() => document.querySelectorAll(".row-prompt").length === 2, "the prompt again");
  await waitIdle(world, id);
});

test("usage_limit_and_crash_have_the_same_card", async (world) => {
  const words = "You have hit your usage limit. Come back at 5 PM.";
  const id = await world.host.session("rows", `fail -32603 ${words}`);
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitText("The agent has reached a limit", ".failure h4");
  await tab.waitText(words, ".failure p");
  await tab.picture(world.picture("failure_limit"));
  await tab.click(".failure .again");
  await tab.wait(() => document.querySelectorAll(".failure").length === 2, "the same end again");
  assert.equal(await tab.run(() => document.querySelectorAll(".again").length), 1, "only the newest turn can be tried again");
  await world.host.prompt(id, "crash out of cheese");
  await tab.waitText("The agent ended", ".failure h4");
  await tab.waitText("out of cheese", ".failure pre");
  assert.deepEqual([await count(tab, "exited with code 3"), await count(tab, "The agent exited")], [1, 0], "it is told once");
  await tab.picture(world.picture("failure_crash"));
  await tab.click(".again");
  await tab.wait(() => document.querySelectorAll(".failure").length === 4, "the prompt runs again");
  const prompts = (await world.host.rows(id)).filter((row) => row.kind === "prompt").map((row) => row.parts[0].text);
  assert.deepEqual(prompts, [`fail -32603 ${words}`, `fail -32603 ${words}`, "crash out of cheese", "crash out of cheese"]);
});

/** Returns the prompts of a session with their whole texts. */
async function readPrompts(host, id) {
  const prompts = [];
  for (const row of (await host.rows(id)).filter((one) => one.kind === "prompt")) {
    let text = "";
    for (let next = 0; next !== null; ) {
      const page = await host.call("GET", `sessions/${id}/rows/${row.id}/text?part=0&offset=${next}`);
      text += page.text;
      next = page.next ?? null;
    }
    prompts.push({ text, others: row.parts.slice(1) });
  }
  return prompts;
}

for (const [name, size] of [["row", 30_000], ["answer", 1_300_000]]) {
  test(`prompt_that_is_larger_than_${/^[aeiou]/.test(name) ? "an" : "a"}_${name}_is_tried_again_whole`, async (world) => {
    const id = await world.host.session("rows");
    const text = `fail -32603 no luck\n${"word ".repeat(size / 5)}end`;
    await world.host.prompt(id, text);
    const tab = await openPage(world, `#/s/${id}`);
    await tab.waitText("no luck", ".failure p");
    await tab.click(".failure .again");
    await tab.wait(() => document.querySelectorAll(".failure").length === 2, "the same end again");
    const texts = (await readPrompts(world.host, id)).map((prompt) => prompt.text);
    assert.deepEqual(texts.map((one) => one.length), [text.length, text.length]);
    assert.equal(texts[1] === text, true, "it is the same text");
  });
}

test("prompt_is_tried_again_with_images_bytes_and_links", async (world) => {
  const id = await world.host.session("rows");
  const picture = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVR4nGP8z8Dwn4GBgYkBCv4zMAAAFQAC/2Yx4ZcAAAAASUVORK5CYII=";
  await world.host.prompt(id, [
    { type: "text", text: "fail -32603 no luck" },
    { type: "resource_link", name: "the notes", uri: "https://example.org/notes" },
    { type: "resource_link", name: "src/a b.rs", uri: "file:///code/src/a%20b.rs" },
    { type: "image", mimeType: "image/png", data: picture, uri: "file:///tmp/shot.png" },
    { type: "resource", resource: { uri: "file:///tmp/data.bin", mimeType: "application/x-data", blob: "/wABAv8=" } },
  ]);
  const tab = await openPage(world, `#/s/${id}`);
  await tab.click(".failure .again");
  await tab.wait(() => document.querySelectorAll(".failure").length === 2, "the same end again");
  const sent = (await readPrompts(world.host, id)).map(({ others }) => others.map((part) => part.blob ?? `${part.name} ${part.uri}`));
  assert.equal(sent[0].length, 4);
  assert.deepEqual(sent[1], sent[0]);
});

test("start_that_fails_with_the_code_of_a_missing_login_says_what_it_is", async (world) => {
  const { id } = await world.host.call("POST", "sessions/agent", { adapter: "locked", cwd: world.host.work, prompt: "say hello" }, { Prefer: "respond-async" });
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitText("the database is locked", ".failure p");
  await tab.waitText("locked may not be signed in", ".failure h4");
  await tab.waitText("wharf login locked", ".failure code");
});

test("command_is_shown_where_the_browser_has_no_clipboard", async (world) => {
  const id = await world.host.session("rows", "fail -32000 Authentication required");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitFor(".failure");
  await tab.run(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
  await tab.click(".failure button", "Copy the command");
  await waitMessage(tab, "wharf login rows");
  await tab.click('.menu button[aria-label="More"]');
  await tab.click(".menu-list button", "Copy link");
  await waitMessage(tab, `#/s/${id}`);
  assert.deepEqual(await tab.run(() => [...window.messages].filter((one) => one.includes("in the clipboard"))), []);
});

test("session_whose_agent_left_between_turns_goes_on_without_its_last_prompt", async (world) => {
  const id = await world.host.session("forgetful", "leave");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitText("The agent ended", ".failure h4");
  await tab.click(".failure .again");
  await tab.wait((old) => location.hash !== `#/s/${old}`, "the new session", id);
  const made = (await tab.run(() => location.hash)).split("/").at(-1);
  for (let status = ""; status !== "running"; ) ({ status } = await world.host.call("GET", `sessions/${made}`));
  await waitIdle(world, made);
  assert.deepEqual(await readPrompts(world.host, made), []);
});

test("session_that_ran_is_not_archived_and_gives_its_label_to_the_new_one", async (world) => {
  const { id } = await world.host.call("POST", "sessions/agent", { adapter: "forgetful", cwd: world.host.work, label: "harbour" });
  await world.host.prompt(id, "crash out of memory");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitText("The agent ended", ".failure h4");
  // As after a start that failed later.
  await withModule(tab, "store.js", ({ app, changed }) => {
    const { transcript } = app;
    transcript.rows = transcript.rows.map((row) => (row.kind === "turn_end" ? { ...row, reason: "start_failed" } : row));
    transcript.version += 1;
    changed();
  });
  await tab.waitText("The agent did not start", ".failure h4");
  await tab.click(".failure .again");
  await tab.wait((old) => location.hash !== `#/s/${old}`, "the new session", id);
  const made = (await tab.run(() => location.hash)).split("/").at(-1);
  const sessions = await Promise.all([id, made].map((one) => world.host.call("GET", `sessions/${one}`)));
  assert.deepEqual(sessions.map(({ label, archived }) => [label, archived]), [[undefined, undefined], ["harbour", undefined]]);
});
