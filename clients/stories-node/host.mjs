// Runs `wharf serve` for a story, which may kill it and start the next one on the same state directory.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { openSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";

export class Host {
  #child;

  /** Starts a host with the configuration and the state in `dir`. `wharf` is the binary. */
  static async start(wharf, dir) {
    const host = new Host();
    host.wharf = wharf;
    host.stateDir = `${dir}/state`;
    const args = ["serve", "--listen", "127.0.0.1:0", "--json", "--state-dir", host.stateDir, "--config", `${dir}/config.toml`];
    const env = { PATH: process.env.PATH, HOME: `${dir}/home` };
    const log = openSync(`${dir}/host.log`, "a");
    host.#child = spawn(wharf, args, { env, stdio: ["ignore", "pipe", log] });
    process.on("exit", (code) => host.#discard(code));
    for await (const line of createInterface({ input: host.#child.stdout })) {
      const said = JSON.parse(line);
      host.url = said.url.replace(/\/$/, "");
      host.token = readFileSync(said.tokenFile, "utf8").trim();
      return host;
    }
    throw new Error(`the host did not start: ${readFileSync(`${dir}/host.log`, "utf8")}`);
  }

  /** Ends what a story that failed has left: its host, which ends its agents, or the agents of a host that is dead. */
  #discard(code) {
    if (this.#child.kill("SIGINT") || code === 0) return;
    spawnSync(this.wharf, ["stop", "--force", "--state-dir", this.stateDir], { stdio: "ignore" });
  }

  /** Ends the host as a crash would. Its agents go on. */
  async crash() {
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await ended;
  }

  /** Stops the host, and its agents with it. */
  async stop() {
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGINT");
    const [code] = await ended;
    if (code !== 0) throw new Error(`the host ended with ${code}`);
  }

  /** Reads a resource of the REST interface. */
  async get(path) {
    const response = await fetch(this.url + path, { headers: { authorization: `Bearer ${this.token}` } });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.json();
  }
}
