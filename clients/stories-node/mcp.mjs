// The official TypeScript SDK of MCP walks one whole story over one transport: `node mcp.mjs newest http`, or `first`, or `stdio`.
import assert from "node:assert/strict";
import { ToolClient } from "./mcp_connections.mjs";
import { begin, tell } from "./news.mjs";

const [generation, transport] = process.argv.slice(2);
const { WHARF_URL: url, WHARF_TOKEN: token, WHARF_STATE_DIR: stateDir, WHARF_BIN: wharf } = process.env;
const host = { url, token, stateDir, wharf };
const label = `story-${generation}-${transport}-${process.pid}`;

await tell(`TypeScript MCP SDK (${generation}) over ${transport}`, async () => {
  begin("connection");
  const first = await ToolClient.connect(host, generation, transport, "first");
  assert.ok(first.tools.length >= 12, `${first.tools.length} tools`);
  assert.ok(first.tools.every((tool) => tool.inputSchema && tool.outputSchema && tool.annotations));
  const sessionId = await start(first);
  await permit(first, sessionId);
  await cancel(first, sessionId);
  await share(first, sessionId);
  await read(first, sessionId);
  await resume(first, sessionId);
  await first.leave();
});

async function start(first) {
  begin("start");
  const { agents } = await first.call("list_agents", {});
  const adapter = agents.find((agent) => agent.default).adapter;
  const prompt = "title A story; tool; stream 20 30";
  const wanted = { adapter, cwd: process.cwd(), label, prompt, idempotencyKey: label };
  const session = await first.call("start_agent_session", wanted);
  const again = await first.call("start_agent_session", wanted);
  assert.equal(again.id, session.id, "a repeated start is the same session");
  begin("stream");
  const waited = await wait(first, session.id);
  assert.equal(waited.outcome, "turn_ended");
  const text = waited.lines.join("");
  assert.ok([...Array(20).keys()].every((number) => text.includes(`${number} `)), text);
  assert.equal(waited.lines.at(-1), "── turn-end (end_turn) ──");
  return session.id;
}

function wait(client, sessionId, onprogress) {
  return client.call("wait_agent_session", { sessionId }, onprogress);
}

async function permit(first, sessionId) {
  begin("permission");
  await first.call("prompt_agent_session", { sessionId, prompt: "ask; echo permitted" });
  const asked = await wait(first, sessionId);
  assert.equal(asked.outcome, "awaiting_input");
  const [ask] = asked.asks;
  const { optionId } = ask.options.find(({ kind }) => kind === "allow_once");
  await first.call("answer_agent_session", { sessionId, askId: ask.askId, optionId });
  const ended = await wait(first, sessionId);
  assert.equal(ended.outcome, "turn_ended");
  assert.ok(ended.lines.join("").includes("chosen: allow_oncepermitted"), ended.lines.join("\n"));
}

async function cancel(first, sessionId) {
  begin("cancel");
  await first.call("prompt_agent_session", { sessionId, prompt: "echo on it; hang" });
  const busy = await first.refused("prompt_agent_session", { sessionId, prompt: "echo too early" });
  assert.equal(busy, "turn_in_progress");
  const heard = Promise.withResolvers();
  const waiting = wait(first, sessionId, heard.resolve);
  await heard.promise;
  const { wasBusy } = await first.call("interrupt_agent_session", { sessionId });
  assert.ok(wasBusy);
  const { outcome, stopReason } = await waiting;
  assert.deepEqual([outcome, stopReason], ["turn_ended", "cancelled"]);
}

async function share(first, sessionId) {
  begin("second client");
  const second = await ToolClient.connect(host, generation, transport, "second");
  begin("list");
  const { sessions } = await second.call("list_agent_sessions", { label, onlyAlive: true });
  assert.deepEqual(sessions.map(({ id, title }) => [id, title]), [[sessionId, "A story"]]);

  begin("a question that the second client answers");
  await first.call("prompt_agent_session", { sessionId, prompt: "echo hello; ask; echo shared" });
  const { asks } = await wait(second, sessionId);
  await second.call("answer_agent_session", { sessionId, askId: asks[0].askId, optionId: asks[0].options[0].optionId });
  assert.equal((await wait(first, sessionId)).outcome, "turn_ended");
  await second.leave();
}

async function read(first, sessionId) {
  begin("output");
  const { lines } = await first.call("get_agent_session_output", { sessionId, lastN: 1 });
  assert.deepEqual(lines, ["── turn-end (end_turn) ──"]);
  const { rows } = await first.call("get_agent_session_output", { sessionId, format: "rows", whole: true });
  assert.ok(rows.some(({ summary }) => summary.includes("shared")), JSON.stringify(rows));
  const { changes } = await first.call("get_agent_session_output", { sessionId, format: "changes" });
  assert.deepEqual(changes.files.map(({ path }) => path), ["/a.txt"]);
  await first.call("search_agent_sessions", { query: "shared", sessionId });
  begin("fork");
  const fork = await first.call("fork_agent_session", { sessionId, title: "A copy" });
  await first.call("kill_agent_session", { sessionId: fork.id });
}

async function resume(first, sessionId) {
  begin("kill");
  assert.deepEqual(await first.call("kill_agent_session", { sessionId }), { ok: true, sessionId });
  const { sessions } = await first.call("list_agent_sessions", { label, onlyAlive: true });
  assert.deepEqual(sessions, []);
  assert.equal(await first.refused("prompt_agent_session", { sessionId, prompt: "echo gone" }), "killed");

  begin("resume");
  const resumed = await first.call("resume_agent_session", { sessionId });
  assert.equal(resumed.id, sessionId);
  await first.call("prompt_agent_session", { sessionId, prompt: "echo back" });
  const { lines } = await wait(first, sessionId);
  assert.deepEqual(lines.slice(-2), ["back", "── turn-end (end_turn) ──"]);

  begin("end");
  await first.call("kill_agent_session", { sessionId });
  const all = await first.call("list_agent_sessions", { label });
  assert.deepEqual(all.sessions.map(({ status }) => status), ["killed"]);
}
