// Runs the tests of the page against a host and headless Chromium: node run.mjs [part of a name]
import path from "node:path";
import { Browser } from "./browser.mjs";
import { Host, openHosts } from "./host.mjs";
import { openProxies } from "./proxy.mjs";
import { assert, cases } from "./suite.mjs";
import "./cases_sign_in.mjs";
import "./cases_sessions.mjs";
import "./cases_access.mjs";
import "./cases_hostile.mjs";
import "./cases_stream.mjs";
import "./cases_silence.mjs";
import "./cases_failures.mjs";
import "./cases_reading.mjs";
import "./cases_push.mjs";

const wanted = process.argv[2] ?? "";
const folder = process.env.WHARF_PAGE_PICTURES ?? "target/page-pictures";
/** Only a test that hangs takes so long, also on a machine with much other work. */
const CASE_MS = 300_000;
const begin = Date.now();
const world = { browser: await Browser.launch(), host: await Host.start(), tabs: [], picture: (name) => path.join(folder, `${name}.png`) };
const failed = [];
let count = 0;
for (const { name, work } of cases.filter((one) => one.name.includes(wanted))) {
  const since = Date.now();
  count += 1;
  let timer;
  try {
    await Promise.race([work(world), new Promise((_, reject) => { timer = setTimeout(() => reject(new Error("took too long")), CASE_MS); })]);
    for (const tab of world.tabs) {
      assert.deepEqual(tab.errors, [], "errors in the console");
      assert.deepEqual(await tab.run(() => window.violations ?? []).catch(() => []), [], "violations of the content policy");
      assert.equal(tab.crashed, false);
    }
    console.log(`ok   ${name} (${Date.now() - since} ms)`);
  } catch (error) {
    failed.push(name);
    console.log(`FAIL ${name}\n${error.stack}`);
    await world.tabs.at(-1)?.picture(world.picture(`failed_${name}`)).catch(() => {});
  }
  clearTimeout(timer);
  for (const tab of world.tabs.splice(0)) await tab.close().catch(() => {});
  // A test that failed may have left hosts, and the host of all tests stopped or dead.
  for (const proxy of [...openProxies]) proxy.stop();
  for (const host of [...openHosts]) await (host === world.host ? host.revive() : host.discard()).catch((error) => console.log(`  ${error.message}`));
}
await world.browser.close();
await world.host.discard();
console.log(`${count - failed.length} of ${count} tests of the page passed in ${((Date.now() - begin) / 1000).toFixed(1)} s${failed.length ? `; failed: ${failed.join(", ")}` : ""}`);
process.exit(failed.length ? 1 : 0);
