// Follows the rows of a session with generated types: starts the demo agent, prompts it, prints its answer.
import type { components } from "./api.js";

type Schemas = components["schemas"];
type StreamEvent = Schemas["RowStreamEvent"];
type Row = Schemas["Row"];

/** The rows of a session, kept up to date by the events of its stream. */
class Transcript {
  rows = new Map<string, Row>();
  open: string[] = [];
  ended: Row | undefined;

  apply(event: StreamEvent): void {
    switch (event.event) {
      case "page":
        this.rows = new Map(event.data.rows.map((row) => [row.id, row]));
        break;
      case "row": {
        const known = this.rows.get(event.data.id);
        if (!known || known.rev < event.data.rev) this.rows.set(event.data.id, event.data);
        if (event.data.kind === "turn_end") this.ended = event.data;
        break;
      }
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
      case "state":
        if (event.data.asks) this.open = event.data.asks;
        break;
      case "beat":
        break;
      case "reset":
        this.rows.clear();
        break;
      case "gone":
        throw new Error("the session was deleted");
    }
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

async function call<T>(path: string, body: unknown): Promise<T> {
  const response = await fetch(base + path, { method: "POST", headers, body: JSON.stringify(body) });
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

const session = await call<Schemas["Session"]>("/sessions/agent", { adapter: "demo", cwd: process.cwd() });
const transcript = new Transcript();
let prompted = false;
for await (const event of readEvents(`/sessions/${session.id}/rows/stream`)) {
  transcript.apply(event);
  if (!prompted) {
    prompted = true;
    await call(`/sessions/${session.id}/prompt`, { prompt: "echo hello harbour" });
  }
  if (transcript.ended) break;
}
const end = transcript.ended;
if (end?.kind !== "turn_end" || end.outcome !== "done") throw new Error("the turn did not end well");
console.log(transcript.answer());
process.exit(0);
