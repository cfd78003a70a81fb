// An editor on the official TypeScript SDK: one ACP connection, and everything that it received.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import { WebSocket } from "ws";
import { News } from "./news.mjs";

const agent = acp.methods.agent;

/** Where the host is: `url` and `token` for its listener, `wharf` and `stateDir` for `wharf acp`. */
export class Editor {
  updates = [];
  asks = [];
  withdrawn = 0;
  /** True to answer permissions; otherwise they are left to other clients. */
  grants = true;
  news = new News();
  #connection;
  #bridge;

  /** Connects over `ws`, `http` or `stdio` and initializes. */
  static async connect(host, transport, name) {
    const editor = new Editor();
    editor.#connection = editor.#app(name).connect(await editor.#open(host, transport));
    const params = { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {}, clientInfo: { name, version: "1" } };
    editor.agent = await editor.request(agent.initialize, params);
    return editor;
  }

  async #open(host, transport) {
    const headers = { authorization: `Bearer ${host.token}` };
    switch (transport) {
      case "ws":
        return createWebSocketStream(`${host.url.replace("http", "ws")}/acp`, { WebSocket, headers });
      case "http":
        return createHttpStream(`${host.url}/acp`, { headers });
      case "stdio": {
        const args = ["acp", "--no-start", "--state-dir", host.stateDir];
        this.#bridge = spawn(host.wharf, args, { stdio: ["pipe", "pipe", "inherit"] });
        return acp.ndJsonStream(Writable.toWeb(this.#bridge.stdin), Readable.toWeb(this.#bridge.stdout));
      }
      default:
        throw new Error(`${transport} is not a transport`);
    }
  }

  #app(name) {
    const app = acp.client({ name });
    app.onNotification(acp.methods.client.session.update, ({ params }) => {
      this.updates.push(params);
      this.news.wake();
    });
    app.onRequest(acp.methods.client.session.requestPermission, async ({ params, signal }) => {
      this.asks.push(params);
      this.news.wake();
      if (this.grants) return grant(params);
      // A request and its withdrawal may come together, before this handler runs.
      if (!signal.aborted) await once(signal, "abort");
      this.withdrawn += 1;
      this.news.wake();
      return { outcome: { outcome: "cancelled" } };
    });
    return app;
  }

  request(method, params) {
    return this.#connection.agent.request(method, params);
  }

  async open(cwd) {
    return (await this.request(agent.session.new, { cwd, mcpServers: [] })).sessionId;
  }

  load(sessionId, cwd) {
    return this.request(agent.session.load, { sessionId, cwd, mcpServers: [] });
  }

  resume(sessionId, cwd) {
    return this.request(agent.session.resume, { sessionId, cwd, mcpServers: [] });
  }

  /** Sends a prompt. Returns the stop reason. */
  async prompt(sessionId, text) {
    return (await this.request(agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] })).stopReason;
  }

  cancel(sessionId) {
    return this.#connection.agent.notify(agent.session.cancel, { sessionId });
  }

  close(sessionId) {
    return this.request(agent.session.close, { sessionId });
  }

  /** Returns every page of the list of sessions. */
  async list() {
    const sessions = [];
    let cursor;
    do {
      const page = await this.request(agent.session.list, cursor ? { cursor } : {});
      sessions.push(...page.sessions);
      cursor = page.nextCursor;
    } while (cursor);
    return sessions;
  }

  /** Returns the texts of all updates of this kind, in their order. */
  texts(kind) {
    const shown = this.updates.filter(({ update }) => update.sessionUpdate === kind);
    return shown.map(({ update }) => update.content.text);
  }

  /** Returns the agent's chunks. */
  said() {
    return this.texts("agent_message_chunk");
  }

  /** Waits until the agent has sent a chunk with this text. */
  untilSaid(text) {
    return this.news.until(() => this.said().includes(text));
  }

  /** Ends the connection, and waits until `wharf acp` has ended too. */
  async leave() {
    this.#connection.close();
    await this.#connection.closed;
    if (this.#bridge && this.#bridge.exitCode === null) {
      const ended = once(this.#bridge, "exit");
      this.#bridge.stdin.end();
      await ended;
    }
  }
}

function grant(params) {
  const option = params.options.find(({ kind }) => kind === "allow_once");
  return { outcome: { outcome: "selected", optionId: option.optionId } };
}
