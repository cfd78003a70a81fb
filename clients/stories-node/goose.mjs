// A real agent, goose, with a scripted model: one whole story through the host, with a crash of the host in mid-turn.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Editor } from "./editor.mjs";
import { Host } from "./host.mjs";
import { Model } from "./model.mjs";
import { begin, tell } from "./news.mjs";

const goose = path.resolve("node_modules/.bin/goose-binary-linux-x64");
const dir = mkdtempSync(path.join(tmpdir(), "wharf-goose-"));
const work = path.join(dir, "work");
process.on("exit", (code) => code !== 0 && console.error(`the files of the story, with host.log: ${dir}`));
const held = Promise.withResolvers();

const script = {
  "say hello": [{ say: ["hello ", "harbour"] }],
  "make a file": [
    { say: ["I make it."], call: { name: "write", input: { path: `${work}/story.txt`, content: "once upon a time\n" } } },
    { say: ["made"] },
  ],
  "edit the file": [
    { call: { name: "edit", input: { path: `${work}/story.txt`, before: "once", after: "twice" } } },
    { say: ["edited"] },
  ],
  "talk for ever": [{ say: ["on ", "and on", () => new Promise(() => {})] }],
  "survive a crash": [
    { say: ["before "], call: { name: "shell", input: { command: `echo worked >> ${work}/crash.txt` } } },
    { say: ["between ", () => held.promise, "after"] },
  ],
};

await tell("goose with a scripted model", async () => {
  const model = await Model.start(script);
  prepare(model);
  const host = await Host.start(process.env.WHARF_BIN, dir);
  const first = await Editor.connect(host, "ws", "first");
  begin("start");
  assert.equal(first.agent.agentInfo.name, "goose");
  const session = await first.open(work);
  await talk(first, session);
  await cancel(first, session);
  await share(host, first, session);
  const next = await crash(host, first, session, model);
  await resume(next, session, model);
  model.stop();
  rmSync(dir, { recursive: true });
});

/** Writes the configuration: goose asks before each tool call, keeps its files in `dir`, and knows only the model. */
function prepare(model) {
  for (const name of ["work", "home"]) mkdirSync(path.join(dir, name));
  const env = {
    HOME: `${dir}/home`,
    GOOSE_PROVIDER: "openai",
    GOOSE_MODEL: "scripted",
    GOOSE_MODE: "approve",
    GOOSE_DISABLE_KEYRING: "1",
    GOOSE_TELEMETRY_ENABLED: "false",
    OPENAI_HOST: model.url,
    OPENAI_API_KEY: "none",
  };
  const variables = Object.entries(env).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  const command = JSON.stringify([goose, "acp", "--with-builtin", "developer"]);
  const config = ['default_agent = "goose"', "[agents.goose]", `command = ${command}`, "[agents.goose.env]", ...variables];
  writeFileSync(path.join(dir, "config.toml"), config.join("\n"));
}

async function talk(first, session) {
  begin("prompt and stream");
  assert.equal(await first.prompt(session, "say hello"), "end_turn");
  assert.deepEqual(first.said(), ["hello ", "harbour"]);

  begin("tool call and permission");
  assert.equal(await first.prompt(session, "make a file"), "end_turn");
  assert.equal(first.asks.length, 1);
  assert.equal(readFileSync(`${work}/story.txt`, "utf8"), "once upon a time\n");
  assert.deepEqual(first.said().slice(2), ["I make it.", "made"]);

  begin("edit");
  assert.equal(await first.prompt(session, "edit the file"), "end_turn");
  assert.equal(readFileSync(`${work}/story.txt`, "utf8"), "twice upon a time\n");
  assert.equal(first.said().at(-1), "edited");
}

async function cancel(first, session) {
  begin("cancel");
  const talking = first.prompt(session, "talk for ever");
  await first.untilSaid("and on");
  await first.cancel(session);
  assert.equal(await talking, "cancelled");
}

async function share(host, first, session) {
  begin("second client");
  const second = await Editor.connect(host, "ws", "second");
  await second.load(session, work);
  assert.equal(second.said().join(""), first.said().join(""));
  begin("list");
  const listed = (await second.list()).map(({ sessionId }) => sessionId);
  assert.deepEqual(listed, [session]);
  begin("a question that the second client answers");
  first.grants = false;
  assert.equal(await second.prompt(session, "make a file"), "end_turn");
  await first.news.until(() => first.withdrawn === 1 && first.said().at(-1) === "made");
  await second.leave();
  first.grants = true;
}

/** Kills the host while the model is answering. Returns the next host, with the turn finished whole. */
async function crash(host, first, session, model) {
  begin("crash in mid-turn");
  const cut = first.prompt(session, "survive a crash").catch(() => "cut off");
  await first.untilSaid("between ");
  await host.crash();
  assert.equal(await cut, "cut off");

  begin("the next host");
  const next = await Host.start(process.env.WHARF_BIN, dir);
  const third = await Editor.connect(next, "ws", "third");
  await third.load(session, work);
  assert.equal(third.said().slice(-2).join(""), "before between ");
  // This prompt waits in line: its answer comes when the turn that outlived its host has ended.
  const last = third.prompt(session, "say hello");
  held.resolve("");
  assert.equal(await last, "end_turn");
  assert.equal(third.said().join("").split("before between after").length, 2, third.said().join("|"));

  const { turns } = await next.get(`/sessions/${session}/turns?limit=2`);
  const survived = await next.get(`/sessions/${session}/turns/${turns[1].promptId}`);
  assert.deepEqual([survived.outcome, survived.text.replace(/\s+/g, " ")], ["done", "before between after"]);
  assert.equal(readFileSync(`${work}/crash.txt`, "utf8"), "worked\n", "the tool was called once");
  const asked = model.requests.filter((request) => isAbout(request, "survive a crash"));
  assert.equal(asked.length, 2, "the model was asked once before the tool call and once after it");
  await third.leave();
  return next;
}

/** Tells whether the newest prompt of a request is this one. */
function isAbout({ messages, tools }, prompt) {
  const newest = messages.findLast(({ role }) => role === "user");
  return Boolean(tools?.length) && JSON.stringify(newest.content).includes(prompt);
}

async function resume(host, session, model) {
  begin("resume after a stop of the host");
  await host.stop();
  const last = await Host.start(process.env.WHARF_BIN, dir);
  const fourth = await Editor.connect(last, "ws", "fourth");
  await fourth.resume(session, work);
  assert.deepEqual(fourth.said(), []);
  assert.equal(await fourth.prompt(session, "say hello"), "end_turn");
  assert.deepEqual(fourth.said(), ["hello ", "harbour"]);
  assert.ok(JSON.stringify(model.requests.at(-1).messages).includes("edit the file"), "the agent remembers");

  begin("end");
  await fourth.close(session);
  const { status, endReason } = await last.get(`/sessions/${session}`);
  assert.deepEqual([status, endReason], ["killed", "closed"]);
  await fourth.leave();
  await last.stop();
}
