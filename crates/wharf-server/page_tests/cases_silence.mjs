// A host that does not answer, because it or a proxy stands still, is gone, or the device is offline (rule 19.8).
import { Host } from "./host.mjs";
import { startBehindProxy } from "./proxy.mjs";
import { assert, openPage, test, waitIdle, withModule } from "./suite.mjs";

/** The page's waits that are too long for a test; a beat still comes before the shorter one for silence. */
const SHORTENED = `
  const wait = window.setTimeout;
  window.setTimeout = (work, delay, ...rest) => wait(work, delay === 25000 ? 11500 : delay, ...rest);
  const limit = AbortSignal.timeout;
  AbortSignal.timeout = (delay) => limit.call(AbortSignal, delay === 60000 ? 7000 : delay);`;
const NO_WAY = /ERR_|network error|TimeoutError|signal timed out/;

/** Opens a session of a host of its own. */
async function openOwn(world, { host, address }) {
  const id = await host.session("rows", "say before");
  const tab = await world.browser.open();
  world.tabs.push(tab);
  await tab.send("Page.addScriptToEvaluateOnNewDocument", { source: SHORTENED });
  await tab.go(address);
  await tab.waitFor(".side-head");
  await tab.run((hash) => { location.hash = hash; }, `#/s/${id}`);
  await tab.waitText("before", ".row-message");
  return { id, tab };
}

/** Closes a tab whose host ends before the test does. */
async function closeTab(world, tab) {
  assert.deepEqual(tab.errors.filter((error) => !NO_WAY.test(error)), []);
  await tab.close();
  world.tabs = world.tabs.filter((one) => one !== tab);
}

const typePrompt = async (tab, text) => {
  await tab.type("#composer", text);
  await tab.key("Enter");
};
const waitAnswering = (tab) => tab.wait(() => !document.querySelector(".banner") && !document.querySelector(".outgoing"), "the host to answer");
const listPrompts = async (host, id) => (await host.rows(id)).filter((row) => row.kind === "prompt").map((row) => row.parts[0].text);

test("prompt_to_a_stopped_host_shows_as_sending_then_that_it_does_not_answer_and_is_sent_once", async (world) => {
  const host = await Host.start();
  const { id, tab } = await openOwn(world, { host, address: await host.signInAddress() });
  host.child.kill("SIGSTOP");
  try {
    await typePrompt(tab, "say into the silence");
    await tab.waitText("sending…", ".outgoing");
    await tab.waitText("say into the silence", ".outgoing");
    assert.equal(await tab.run(() => document.querySelector("#composer").value), "", "the field is free");
    await tab.waitText("The host does not answer", ".banner");
    await tab.waitText("the host does not answer", ".outgoing");
    await tab.type("#composer", "typed meanwhile");
    await tab.picture(world.picture("host_silent"));
  } finally {
    host.child.kill("SIGCONT");
  }
  await waitAnswering(tab);
  await tab.waitText("into the silence", ".row-message");
  await waitIdle({ host }, id);
  assert.deepEqual(await listPrompts(host, id), ["say before", "say into the silence"]);
  assert.equal(await tab.run(() => document.querySelector("#composer").value), "typed meanwhile");
  await closeTab(world, tab);
  await host.stop();
});

test("page_says_that_a_stopped_host_does_not_answer_although_nothing_was_sent", async (world) => {
  const host = await Host.start();
  const { tab } = await openOwn(world, { host, address: await host.signInAddress() });
  host.child.kill("SIGSTOP");
  await tab.waitText("The host does not answer", ".banner").finally(() => host.child.kill("SIGCONT"));
  await waitAnswering(tab);
  assert.equal(await tab.run(() => document.body.textContent.includes("holds live data back")), false);
  await closeTab(world, tab);
  await host.stop();
});

for (const [name, options] of [["stands_still", {}], ["keeps_the_answers", { answersOnly: true }]]) {
  test(`prompt_behind_a_proxy_that_${name}_is_sent_once`, async (world) => {
    const { host, proxy, signIn } = await startBehindProxy();
    const { id, tab } = await openOwn(world, { host, address: await signIn() });
    proxy.freeze(options);
    await typePrompt(tab, "say through the proxy");
    await tab.waitText("sending…", ".outgoing");
    await tab.waitText("The host does not answer", ".banner");
    // The first request is given up before the answer comes.
    await tab.wait(() => performance.getEntriesByType("resource").some((entry) => entry.name.endsWith("/prompt")), "the first request to end");
    assert.equal(await tab.run(() => document.querySelector(".outgoing .plain").textContent), "say through the proxy");
    proxy.thaw();
    await waitAnswering(tab);
    await tab.waitText("through the proxy", ".row-message");
    await waitIdle({ host }, id);
    assert.deepEqual(await listPrompts(host, id), ["say before", "say through the proxy"]);
    await closeTab(world, tab);
    proxy.stop();
    await host.stop();
  });
}

test("prompt_on_its_way_outlives_its_tab_and_is_sent_once", async (world) => {
  const host = await Host.start();
  const { id, tab } = await openOwn(world, { host, address: await host.signInAddress() });
  host.child.kill("SIGSTOP");
  await typePrompt(tab, "say after the tab");
  await tab.waitText("sending…", ".outgoing");
  await closeTab(world, tab);
  host.child.kill("SIGCONT");
  const next = await openPage(world, "", { host, context: tab.context });
  await next.waitFor(".side-head");
  await next.wait(() => !Object.keys(localStorage).some((key) => key.includes(":outbox:")), "the prompt to be taken");
  await waitIdle({ host }, id);
  assert.deepEqual(await listPrompts(host, id), ["say before", "say after the tab"]);
  await closeTab(world, next);
  await host.stop();
});

test("offline_device_is_told_at_once", async (world) => {
  const tab = await openPage(world);
  const network = (offline) => tab.send("Network.emulateNetworkConditions", { offline, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  await tab.run(() => {
    window.told = null;
    addEventListener("offline", () => {
      const begin = performance.now();
      new MutationObserver(() => { if (document.querySelector(".banner")) window.told ??= performance.now() - begin; }).observe(document.body, { subtree: true, childList: true });
    });
  });
  await network(true);
  await tab.waitText("The host does not answer", ".banner");
  assert.notEqual(await tab.run(() => window.told), null, "the event itself counts");
  await network(false);
  await waitAnswering(tab);
  tab.errors = tab.errors.filter((error) => !NO_WAY.test(error));
});

test("prompt_that_is_refused_comes_back_into_its_field", async (world) => {
  const id = await world.host.session("rows", "say here");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitFor("#composer");
  await tab.run(() => {
    const real = window.fetch;
    window.fetch = (url, options) => (String(url).endsWith("/prompt") ? new Promise((resolve) => { window.refuse = () => resolve(new Response('{"code":"busy","detail":"not now"}', { status: 409 })); }) : real(url, options));
  });
  await typePrompt(tab, "first thought");
  await tab.waitText("first thought", ".outgoing");
  await tab.type("#composer", "second thought");
  await tab.run(() => window.refuse());
  await tab.waitText("Not now", ".messages");
  await tab.wait(() => document.querySelector("#composer").value === "first thought\n\nsecond thought", "both texts in the field");
  assert.equal(await tab.run(() => document.querySelector(".outgoing")), null);
  assert.equal(await withModule(tab, "drafts.js", ({ readDraft }, session) => readDraft(session), id), "first thought\n\nsecond thought");
});
