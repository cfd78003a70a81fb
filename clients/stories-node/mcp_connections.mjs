// Connections of both generations of the official TypeScript SDK of MCP, over `http` and `stdio`.
import { Client as NewestClient, StreamableHTTPClientTransport as NewestHttp } from "@modelcontextprotocol/client";
import { StdioClientTransport as NewestStdio } from "@modelcontextprotocol/client/stdio";
import { Client as FirstClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as FirstStdio } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as FirstHttp } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

/** The longest that a call may take; the SDKs' own limit of a minute is too short for a stalled machine. */
const CALL_LIMIT_MS = 240_000;

const generations = {
  newest: {
    connect: (info) => new NewestClient(info, { versionNegotiation: { mode: "auto" } }),
    http: NewestHttp,
    stdio: NewestStdio,
    call: (client, params, options) => client.callTool(params, options),
  },
  first: {
    connect: (info) => new FirstClient(info),
    http: FirstHttp,
    stdio: FirstStdio,
    call: (client, params, options) => client.callTool(params, undefined, options),
  },
};

export class ToolClient {
  #client;
  #call;

  /** Connects to the host's `/mcp`, or starts `wharf mcp`. */
  static async connect(host, generation, transport, name) {
    const { connect, http: Http, stdio: Stdio, call } = generations[generation];
    const made = new ToolClient();
    made.#call = call;
    made.#client = connect({ name, version: "1" });
    const args = ["mcp", "--no-start", "--state-dir", host.stateDir];
    const opened =
      transport === "http"
        ? new Http(new URL(`${host.url}/mcp`), { requestInit: { headers: { authorization: `Bearer ${host.token}` } } })
        : new Stdio({ command: host.wharf, args, env: process.env });
    await made.#client.connect(opened);
    // The SDKs check an answer against the schema of its tool only if they have listed the tools.
    made.tools = (await made.#client.listTools()).tools;
    return made;
  }

  /** Calls a tool. Returns its structured content, which the SDK has checked. */
  async call(name, args, onprogress) {
    const result = await this.#send(name, args, onprogress);
    if (result.isError) throw new Error(`${name}: ${result.content[0].text}`);
    return result.structuredContent;
  }

  /** Calls a tool that has to refuse. Returns the code of the refusal. */
  async refused(name, args) {
    const result = await this.#send(name, args);
    if (!result.isError) throw new Error(`${name} was not refused: ${JSON.stringify(result.structuredContent)}`);
    return JSON.parse(result.content[0].text).code;
  }

  #send(name, args, onprogress) {
    const options = { timeout: CALL_LIMIT_MS, maxTotalTimeout: CALL_LIMIT_MS, onprogress };
    return this.#call(this.#client, { name, arguments: args }, options);
  }

  leave() {
    return this.#client.close();
  }
}
