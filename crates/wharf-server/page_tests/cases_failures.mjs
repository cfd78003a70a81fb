// A turn that fails says once what is wrong and what helps, and can be tried again.
import fs from "node:fs";
import { assert, openPage, test, waitIdle } from "./suite.mjs";

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
