// A host of its own for the tests: a temporary state directory, a free port, the demo agent and the agent of rows.
import { execFile, spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { promisify } from "node:util";

/** The command of another agent that the tests of restarts are to be run with, too. */
export const REAL_AGENT = process.env.WHARF_PAGE_AGENT ?? "";
const AGENT = new URL("./rows_agent.mjs", import.meta.url).pathname;

/** The environment without the settings that a developer has for hosts of their own. */
const CLEAN_ENVIRONMENT = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("WHARF_")));

/** The hosts that have been started and not been stopped. @type {Set<Host>} */
export const openHosts = new Set();
// A run that dies leaves none.
process.on("exit", () => openHosts.forEach((host) => {
  host.child.kill("SIGCONT");
  host.child.kill("SIGINT");
}));

export class Host {
  static async start(settings = "", flags = []) {
    const host = new Host();
    host.folder = fs.mkdtempSync(path.join(os.tmpdir(), "wharf-page-host-"));
    host.work = path.join(host.folder, "harbour");
    /** The agent "members" is signed in once this file is there. */
    host.loginFile = path.join(host.folder, "signed-in");
    fs.mkdirSync(host.work);
    fs.writeFileSync(path.join(host.work, "hello.py"), "print('hello')\n");
    fs.writeFileSync(path.join(host.folder, "config.toml"), `default_agent = "demo"\n${settings}\n[agents.rows]\ncommand = ["${process.execPath}", "${AGENT}"]\n[agents.forgetful]\ncommand = ["${process.execPath}", "${AGENT}", "--forgetful"]\n[agents.locked]\ncommand = ["${process.execPath}", "${AGENT}", "--refuse", "the database is locked"]\n[agents.members]\ncommand = ["${process.execPath}", "${AGENT}", "--login", "${host.loginFile}"]\n${REAL_AGENT ? `[agents.real]\ncommand = ${JSON.stringify(REAL_AGENT.split(" "))}\n` : ""}`);
    host.flags = flags;
    host.listen = "127.0.0.1:0";
    try {
      await host.run();
    } catch (error) {
      host.#forget();
      throw error;
    }
    openHosts.add(host);
    return host;
  }

  get program() {
    return process.env.WHARF_BIN ?? "target/debug/wharf";
  }

  get environment() {
    return { ...CLEAN_ENVIRONMENT, WHARF_STATE_DIR: path.join(this.folder, "state"), WHARF_CONFIG: path.join(this.folder, "config.toml") };
  }

  /** Starts the process, at the address that it had before. */
  async run() {
    const log = fs.openSync(path.join(this.folder, "host.log"), "a");
    this.child = spawn(path.resolve(this.program), ["serve", "--json", "--listen", this.listen, ...this.flags], { stdio: ["ignore", "pipe", log], env: this.environment });
    this.ended = new Promise((resolve) => this.child.once("exit", resolve));
    const line = await new Promise((resolve, reject) => {
      let text = "";
      this.child.stdout.on("data", (data) => {
        text += data;
        if (text.includes("\n")) resolve(text.split("\n")[0]);
      });
      this.ended.then((code) => reject(new Error(`the host ended with ${code}: ${fs.readFileSync(path.join(this.folder, "host.log"))}`)));
    });
    this.url = JSON.parse(line).url;
    this.listen = new URL(this.url).host;
    this.token = fs.readFileSync(path.join(this.folder, "state/token"), "utf8").trim();
  }

  async kill() {
    this.child.kill("SIGKILL");
    await this.ended;
  }

  /** Ends the host and its agents; SIGTERM would leave them to the next host. */
  async stop() {
    this.child.kill("SIGINT");
    await this.ended;
    this.#forget();
  }

  #forget() {
    openHosts.delete(this);
    fs.rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  /** Has the process run: a test may have stopped or killed it. */
  async revive() {
    this.child.kill("SIGCONT");
    if (this.child.exitCode !== null || this.child.signalCode !== null) await this.run();
  }

  /** Ends what a test has left of the host: only a host that runs ends the agents of one that was killed. */
  async discard() {
    await this.revive();
    await this.stop();
  }

  async call(method, route, body, headers = {}) {
    const response = await fetch(`${this.url}/${route}`, { method, headers: { authorization: `Bearer ${this.token}`, "content-type": "application/json", "x-wharf-client": "editor", ...headers }, body: body === undefined ? undefined : JSON.stringify(body) });
    const answer = await response.json().catch(() => null);
    if (!response.ok) throw new Error(`${method} ${route}: ${response.status} ${JSON.stringify(answer)}`);
    return answer;
  }

  async verb(...words) {
    const { stdout } = await promisify(execFile)(path.resolve(this.program), words, { env: this.environment });
    return stdout.trim();
  }

  async signInAddress(more = {}) {
    const { code } = await this.call("POST", "login/codes", more);
    return `${this.url}/#c=${code}`;
  }

  /** Starts a session, the demo agent at full speed, and waits for the end of the first turn if there is a prompt. */
  async session(adapter, prompt, { wait = true } = {}) {
    const session = await this.call("POST", "sessions/agent", { adapter, cwd: this.work });
    if (adapter === "demo") await this.call("PATCH", `sessions/${session.id}/settings`, { options: { pace: "instant" } });
    if (prompt) await this.prompt(session.id, prompt, wait);
    return session.id;
  }

  async prompt(id, prompt, wait = true) {
    const taken = await this.call("POST", `sessions/${id}/prompt${wait ? "?wait=10m" : ""}`, { prompt, queue: true });
    if (wait && !taken.turn?.endedAt) throw new Error(`the turn of ${JSON.stringify(prompt)} has not ended`);
    return taken;
  }

  /** Returns all rows of a session. */
  async rows(id) {
    const rows = [];
    for (let before; ;) {
      const page = await this.call("GET", `sessions/${id}/rows?limit=200${before ? `&before=${before}` : ""}`);
      rows.unshift(...page.rows);
      if (!page.before) return rows;
      before = page.before;
    }
  }

  /** Returns the text of the agent's messages, without markup and blanks, as the page is to show it. */
  async messages(id) {
    const rows = await this.rows(id);
    return rows.filter((row) => row.kind === "message").flatMap((row) => row.parts).map((part) => part.text ?? "").join("").replace(/[\s*`#|-]/g, "");
  }
}
