// The official TypeScript SDK of ACP walks one whole story over one transport: `node acp.mjs ws`, `http` or `stdio`.
import assert from "node:assert/strict";
import { Editor } from "./editor.mjs";
import { begin, tell } from "./news.mjs";

const transport = process.argv[2];
const { WHARF_URL: url, WHARF_TOKEN: token, WHARF_STATE_DIR: stateDir, WHARF_BIN: wharf } = process.env;
const host = { url, token, stateDir, wharf };
const cwd = process.cwd();

await tell(`TypeScript ACP SDK over ${transport}`, async () => {
  const first = await Editor.connect(host, transport, "first");
  const session = await start(first);
  await stream(first, session);
  await permit(first, session);
  await cancel(first, session);
  await share(first, session);
  await resume(first, session);
});

async function start(first) {
  begin("start");
  const { agentCapabilities: can, agentInfo } = first.agent;
  assert.equal(agentInfo.name, "wharf-scripted-agent");
  assert.ok(can.loadSession && can.sessionCapabilities.list && can.sessionCapabilities.resume, JSON.stringify(can));
  assert.ok(can.sessionCapabilities.close, JSON.stringify(can));
  return first.open(cwd);
}

async function stream(first, session) {
  begin("prompt and stream");
  assert.equal(await first.prompt(session, "think hm; plan; tool; title A story; stream 200 300"), "end_turn");
  const numbers = first.said().map((text) => Number(text.split(" ")[0]));
  assert.deepEqual(numbers, [...Array(200).keys()], "every chunk, in order and before the answer");
  assert.equal(first.texts("agent_thought_chunk").join(), "hm");
  for (const kind of ["plan", "tool_call", "session_info_update"]) {
    assert.ok(first.updates.some(({ update }) => update.sessionUpdate === kind), kind);
  }
}

async function permit(first, session) {
  begin("permission");
  assert.equal(await first.prompt(session, "ask 2; id0; stringid; echo permitted"), "end_turn");
  assert.deepEqual(first.said().slice(-5), [...Array(4).fill("chosen: allow_once"), "permitted"]);
  assert.equal(first.asks.length, 4);
}

async function cancel(first, session) {
  begin("cancel of a turn");
  const working = first.prompt(session, "echo on it; hang");
  await first.untilSaid("on it");
  await first.cancel(session);
  assert.equal(await working, "cancelled");

  begin("cancel of a question");
  first.grants = false;
  const asking = first.prompt(session, "ask");
  await first.news.until(() => first.asks.length === 5);
  await first.cancel(session);
  assert.equal(await asking, "cancelled");
  await first.news.until(() => first.withdrawn === 1);
}

async function share(first, session) {
  begin("second client");
  const second = await Editor.connect(host, transport, "second");
  await second.load(session, cwd);
  assert.deepEqual(second.said(), first.said(), "the replay, all of it before the answer");
  assert.equal(second.texts("user_message_chunk").length, 4);

  assert.equal(await second.prompt(session, "echo hello; ask; echo shared"), "end_turn");
  await first.untilSaid("shared");
  await first.news.until(() => first.withdrawn === 2);
  assert.deepEqual(first.texts("user_message_chunk"), ["echo hello; ask; echo shared"]);
  assert.deepEqual(first.said(), second.said());

  begin("list");
  const entry = (await second.list()).find(({ sessionId }) => sessionId === session);
  assert.deepEqual([entry.cwd, entry.title], [cwd, "A story"]);
  await second.leave();
}

async function resume(first, session) {
  begin("resume");
  await first.leave();
  const third = await Editor.connect(host, transport, "third");
  await third.resume(session, cwd);
  assert.deepEqual(third.said(), [], "a resume replays nothing");
  assert.equal(await third.prompt(session, "echo back"), "end_turn");
  assert.deepEqual(third.said(), ["back"]);

  begin("end");
  await third.close(session);
  const ended = await fetch(`${url}/sessions/${session}`, { headers: { authorization: `Bearer ${token}` } });
  const { status, endReason } = await ended.json();
  assert.deepEqual([status, endReason], ["killed", "closed"]);
  await third.leave();
}
