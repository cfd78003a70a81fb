// Follows the rows of a session with generated types, through a whole story: starts the demo agent, prompts it, answers its
// question, cancels a turn, shares the session with a second client, ends and resumes it. Prints the first answer.
import type { components } from "./api.js";

type Schemas = components["schemas"];
type StreamEvent = Schemas["RowStreamEvent"];
type Row = Schemas["Row"];

/** The rows of a session, kept up to date by the events of its stream. */
class Transcript {
  rows = new Map<string, Row>();
  open: string[] = [];
  /** How the turns ended, in their order. */
  outcomes: string[] = [];
  isGone = false;

  apply(event: StreamEvent): void {
    switch (event.event) {
      case "page":
        this.rows.clear();
        for (const row of event.data.rows) this.put(row);
        break;
      case "row":
        this.put(event.data);
        break;
      case "append": {
        const row = this.rows.get(event.data.id);
        if (!row) break;
        if (row.rev !== event.data.from) throw new Error(`row ${row.id} has to be read anew`);
        if (row.kind !== "message" && row.kind !== "thought" && row.kind !== "prompt") throw new Error(row.kind);
        const part = row.parts[event.data.part];
        if (part?.type !== "text") throw new Error("only text grows");
        part.text += event.data.text;
        row.rev = event.data.rev;
        break;
      }
      case "tail": {
        // The row shows the end of a text that is too large for it.
        const row = this.rows.get(event.data.id);
        if (!row) break;
        if (row.rev !== event.data.from) throw new Error(`row ${row.id} has to be read anew`);
        if (row.kind !== "message" && row.kind !== "thought" && row.kind !== "prompt") throw new Error(row.kind);
        const part = row.parts[event.data.part];
        if (part?.type !== "text" || !part.cut) throw new Error("only a text that is cut has an end");
        part.cut.tail = (part.cut.tail ?? "") + event.data.text;
        row.rev = event.data.rev;
        break;
      }
      case "state":
        if (event.data.asks) this.open = event.data.asks;
        break;
      case "beat":
        break;
      case "reset":
        this.rows.clear();
        break;
      case "gone":
        this.isGone = true;
        break;
    }
  }

  put(row: Row): void {
    const known = this.rows.get(row.id);
    if (!known || known.rev < row.rev) this.rows.set(row.id, row);
    const ends = [...this.rows.values()].filter((row) => row.kind === "turn_end");
    this.outcomes = ends.map((row) => row.outcome);
  }

  answer(): string {
    const texts: string[] = [];
    for (const row of this.rows.values()) {
      if (row.kind !== "message") continue;
      for (const part of row.parts) if (part.type === "text") texts.push(part.text);
    }
    return texts.join("");
  }
}

const [base, token] = [process.env.WHARF_URL ?? "", process.env.WHARF_TOKEN ?? ""];
const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };

async function call<T>(path: string, body?: unknown, method = "POST"): Promise<T> {
  const response = await fetch(base + path, { method, headers, body: body === undefined ? null : JSON.stringify(body) });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

async function* readEvents(path: string): AsyncGenerator<StreamEvent> {
  const response = await fetch(base + path, { headers });
  if (!response.ok || !response.body) throw new Error(`${path}: ${response.status}`);
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of response.body) {
    rest += decoder.decode(bytes, { stream: true });
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const member = (name: string) => block.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      const [event, data] = [member("event"), member("data")];
      if (event && data) yield { event, data: JSON.parse(data) } as StreamEvent;
    }
  }
}

/** A client that follows a session, and waits for what it is to see. */
class Follower {
  transcript = new Transcript();
  #look: (() => void) | undefined;
  #failed: unknown;

  constructor(session: string) {
    this.#follow(session).catch((error) => {
      this.#failed = error;
      this.#look?.();
    });
  }

  async #follow(session: string): Promise<void> {
    for await (const event of readEvents(`/sessions/${session}/rows/stream`)) {
      this.transcript.apply(event);
      this.#look?.();
    }
    throw new Error("the stream has ended");
  }

  /** Waits until the transcript is as it has to be. */
  until(fits: (transcript: Transcript) => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#look = () => {
        if (fits(this.transcript)) resolve();
        else if (this.#failed) reject(this.#failed);
      };
      this.#look();
    });
  }

  /** Waits until this many turns have ended, the last of them so. */
  async untilEnded(turns: number, outcome: string): Promise<void> {
    await this.until(({ outcomes }) => outcomes.length >= turns);
    const { outcomes } = this.transcript;
    if (outcomes.length !== turns || outcomes.at(-1) !== outcome) throw new Error(`${outcome}: ${outcomes.join()}`);
  }
}

function expect(holds: boolean, text: string): void {
  if (!holds) throw new Error(text);
}

// A story that is stuck is a failure.
setTimeout(() => {
  console.error("the story is stuck");
  process.exit(1);
}, 240_000);

const session = await call<Schemas["Session"]>("/sessions/agent", { adapter: "demo", cwd: process.cwd() });
const at = `/sessions/${session.id}`;
const first = new Follower(session.id);
await call(`${at}/prompt`, { prompt: "echo hello harbour" });
await first.untilEnded(1, "done");
const answer = first.transcript.answer();

await call(`${at}/prompt`, { prompt: "ask" });
await first.until(({ open }) => open.length === 1);
const { asks } = await call<Schemas["AskList"]>(`${at}/asks`, undefined, "GET");
await call(`${at}/asks/${asks[0]?.askId}`, { optionId: asks[0]?.options?.[0]?.optionId });
await first.untilEnded(2, "done");

await call(`${at}/prompt`, { prompt: "hang" });
const { wasBusy } = await call<Schemas["Interrupted"]>(`${at}/interrupt`, {});
expect(wasBusy, "the turn did not run");
await first.untilEnded(3, "cancelled");

const second = new Follower(session.id);
await second.untilEnded(3, "cancelled");
await call(`${at}/prompt`, { prompt: "echo shared" });
await Promise.all([first.untilEnded(4, "done"), second.untilEnded(4, "done")]);
expect(first.transcript.answer() === second.transcript.answer(), "two clients see two transcripts");

const { sessions } = await call<Schemas["SessionList"]>("/sessions", undefined, "GET");
expect(sessions.some(({ id }) => id === session.id), "the session is not listed");

await call(`${at}/kill`, undefined);
const resumed = await call<Schemas["Session"]>(`${at}/resume`, {});
expect(resumed.status === "running", resumed.status);
const third = new Follower(session.id);
await call(`${at}/prompt`, { prompt: "echo back" });
await third.untilEnded(5, "done");
await call(at, undefined, "DELETE");
await third.until(({ isGone }) => isGone);
console.log(answer);
process.exit(0);
