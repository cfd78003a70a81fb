// An ACP agent for the tests of the page: it says and does what its prompt asks for.
//   rows N           N rows: a message and a tool call in turn
//   flood SECONDS N  N updates a second, in messages of a hundred updates with a tool call after each
//   pour SECONDS N   the same in a single message
//   long             a message of 60,000 characters, whose last lines come when the turn is cancelled
//   say TEXT         the text, \n and \uXXXX in it being escapes
//   line BYTES       one line of so many bytes
//   run              a tool call with output, a failed one, an image
//   tool ID STATUS   a tool call
//   update ID TEXT   completes an earlier tool call, with this output
//   halves           an emoji whose halves come in two updates, and one of several characters, piece by piece
//   name PATH        names a file that it has changed
//   grow             a message that goes on when it is cancelled, then a tool call and another message
//   hold             nothing, until it is cancelled
//   fail CODE TEXT   the turn fails with this error, the first line of the text
//   leave            the turn ends, and then the agent, with 3
//   crash TEXT       writes the text to stderr and exits with 3
// With the argument --login FILE it asks for a login until the file exists; with --forgetful it cannot load a session;
// with --refuse TEXT it begins none.
import fs from "node:fs";
import readline from "node:readline";

let nextId = 1;
const loginFile = process.argv[process.argv.indexOf("--login") + 1];
const needsLogin = () => process.argv.includes("--login") && !fs.existsSync(loginFile);
const held = new Map();
const folders = new Map();
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const update = (sessionId, update) => send({ method: "session/update", params: { sessionId, update } });
const say = (sessionId, text) => update(sessionId, { sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
const tool = (sessionId, id, more) => update(sessionId, { sessionUpdate: "tool_call", toolCallId: id, title: id, kind: "read", status: "completed", ...more });
// A picture of four pixels.
const PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVR4nGP8z8Dwn4GBgYkBCv4zMAAAFQAC/2Yx4ZcAAAAASUVORK5CYII=";

async function perform(sessionId, id, text) {
  const [word, ...rest] = text.split(" ");
  if (word === "rows") {
    const count = Number(rest[0]);
    for (let row = 0; row < count; row += 2) {
      say(sessionId, `Message ${row}. It has **some** text and \`code\`, so that it takes a line or two on the screen of a phone.\n`);
      tool(sessionId, `read-${row}`, { title: `Read file_${row}.txt`, status: row % 50 === 48 ? "failed" : "completed", content: [{ type: "content", content: { type: "text", text: `content of ${row}` } }] });
      if (row % 500 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
  } else if (word === "long") {
    const speak = (from, to) => { for (let line = from; line < to; line += 1) say(sessionId, `Line ${line} of a **long** answer, with some words.\n`); };
    speak(0, 1200);
    await new Promise((resolve) => held.set(sessionId, { resolve }));
    speak(1200, 1210);
  } else if (word === "flood" || word === "pour") {
    const [seconds, rate] = rest.map(Number);
    const begin = Date.now();
    let sent = 0;
    while (Date.now() - begin < seconds * 1000 && !held.get(sessionId)?.cancelled) {
      const due = Math.floor(((Date.now() - begin) / 1000) * rate);
      for (; sent < due; sent += 1) {
        if (word === "flood" && sent % 101 === 100) tool(sessionId, `step-${sent}`, { title: `Step ${sent}` });
        else say(sessionId, `word${sent} `);
      }
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  } else if (word === "say") say(sessionId, JSON.parse(`"${rest.join(" ").replaceAll('"', '\\"')}"`));
  else if (word === "line") {
    const piece = "x".repeat(50_000);
    for (let left = Number(rest[0]); left > 0; left -= piece.length) say(sessionId, piece.slice(0, left));
  } else if (word === "run") {
    tool(sessionId, "t1", { title: "cargo test", kind: "execute", rawInput: { command: "cargo test" }, content: [{ type: "content", content: { type: "text", text: "running 3 tests\nok\n" } }] });
    tool(sessionId, "t2", { title: "cargo clippy", kind: "execute", status: "failed", content: [{ type: "content", content: { type: "text", text: "error: unused variable" } }] });
    update(sessionId, { sessionUpdate: "agent_message_chunk", content: { type: "image", mimeType: "image/png", data: PICTURE } });
  } else if (word === "tool") tool(sessionId, rest[0], { title: `Tool ${rest[0]}`, kind: "execute", status: rest[1] });
  else if (word === "update") update(sessionId, { sessionUpdate: "tool_call_update", toolCallId: rest[0], status: "completed", content: [{ type: "content", content: { type: "text", text: rest.slice(1).join(" ") } }] });
  else if (word === "halves") for (const piece of ["a ", "\ud83d", "\ude80", " b ", "👩", "\u200d", "👩", "\u200d", "👧", " c"]) say(sessionId, piece);
  else if (word === "name") {
    tool(sessionId, "t3", { title: `Edit ${rest[0]}`, kind: "edit", content: [{ type: "diff", path: `${folders.get(sessionId)}/${rest[0]}`, oldText: "one\n", newText: "two\n" }] });
    say(sessionId, `I have changed \`${rest[0]}\` and looked at \`other.txt\`.`);
  } else if (word === "grow") {
    const speak = (from, to) => { for (let count = from; count < to; count += 1) say(sessionId, `word${count} `); };
    speak(0, 100);
    await new Promise((resolve) => held.set(sessionId, { resolve }));
    speak(100, 300);
    tool(sessionId, "grown");
    speak(300, 500);
  } else if (word === "crash") {
    fs.writeSync(2, `${rest.join(" ")}\n`);
    process.exit(3);
  } else if (word === "fail") return void send({ id, error: { code: Number(rest[0]), message: rest.slice(1).join(" ").split("\n")[0] } });
  else if (word === "leave") return void process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, result: { stopReason: "end_turn" } })}\n`, () => process.exit(3));
  else if (word === "hold") await new Promise((resolve) => held.set(sessionId, { resolve }));
  else say(sessionId, `You said: ${text}`);
  const cancelled = held.get(sessionId)?.cancelled;
  held.delete(sessionId);
  send({ id, result: { stopReason: cancelled ? "cancelled" : "end_turn" } });
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") send({ id, result: { protocolVersion: 1, agentCapabilities: { loadSession: !process.argv.includes("--forgetful"), promptCapabilities: { image: true, embeddedContext: true } }, authMethods: [] } });
  else if (needsLogin() && id !== undefined) send({ id, error: { code: -32000, message: "Authentication required" } });
  else if (method === "session/new" && process.argv.includes("--refuse")) send({ id, error: { code: -32000, message: process.argv.at(-1) } });
  else if (method === "session/new") {
    const sessionId = `rows-${process.pid}-${nextId++}`;
    folders.set(sessionId, params.cwd);
    send({ id, result: { sessionId } });
  }
  else if (method === "session/load" || method === "session/resume") send({ id, result: {} });
  else if (method === "session/prompt") {
    held.set(params.sessionId, {});
    perform(params.sessionId, id, params.prompt.map((part) => part.text ?? "").join(""));
  } else if (method === "session/cancel") {
    const turn = held.get(params.sessionId) ?? {};
    held.set(params.sessionId, { ...turn, cancelled: true });
    turn.resolve?.();
  } else if (id !== undefined) send({ id, error: { code: -32601, message: `no method ${method}` } });
});
