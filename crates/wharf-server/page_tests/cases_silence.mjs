// A host that does not answer, because it or a proxy stands still, is gone, or the device is offline (rule 19.8).
import { Host } from "./host.mjs";
import { startBehindProxy } from "./proxy.mjs";
import { assert, openPage, test, waitIdle, waitMessage, withModule } from "./suite.mjs";

/**
 * Lets a test pass over a wait of the page that is too long for it, gives requests up early, and measures how long the page stood
 * still: on a machine with much other work timers come late.
 */
const TIMERS = `
  const [set, clear] = [window.setTimeout, window.clearTimeout];
  const waits = new Map();
  window.setTimeout = (work, delay, ...rest) => {
    const file = new Error().stack;
    const id = set(() => { waits.delete(id); work(...rest); }, delay);
    waits.set(id, { work, delay, file });
    return id;
  };
  window.clearTimeout = (id) => { waits.delete(id); clear(id); };
  window.findWaits = (delay, file) => [...waits].filter(([, wait]) => wait.delay === delay && wait.file.includes(file)).map(([id]) => id);
  window.passWaits = (delay, file) => findWaits(delay, file).forEach((id) => {
    const { work } = waits.get(id);
    window.clearTimeout(id);
    work();
  });
  const limit = AbortSignal.timeout;
  AbortSignal.timeout = (delay) => limit.call(AbortSignal, delay === 60000 ? 7000 : delay);
  const TICK_MS = 50;
  let [paused, lastTick] = [0, performance.now()];
  window.readPaused = () => paused + Math.max(0, performance.now() - lastTick - TICK_MS);
  setInterval(() => { paused = readPaused(); lastTick = performance.now(); }, TICK_MS);`;
const NO_WAY = /ERR_|network error|TimeoutError|signal timed out/;

/** Opens a session of a host of its own. */
async function openOwn(world, { host, address }) {
  const id = await host.session("rows", "say before");
  const tab = await world.browser.open();
  world.tabs.push(tab);
  await tab.send("Page.addScriptToEvaluateOnNewDocument", { source: TIMERS });
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

/** Measures from this event of the page on until the page takes its host for dead. */
const startClock = (tab, event) => withModule(tab, "host_watch.js", ({ onAnswersChange }, name) => {
  const clock = window.clock = { tookMs: null };
  addEventListener(name, () => { [clock.begin, clock.paused] = [performance.now(), readPaused()]; }, { capture: true, once: true });
  onAnswersChange((answers) => {
    if (!answers) clock.tookMs ??= performance.now() - clock.begin - (readPaused() - clock.paused);
  });
}, event);
/** Checks the time that the page took, without the pauses of the machine: 5 seconds, and the steps of the clock. */
const checkClock = async (tab) => {
  const tookMs = await tab.wait(() => window.clock.tookMs, "the page to take its host for dead");
  assert.ok(tookMs <= 5300, `it took ${Math.round(tookMs)} ms`);
};

const typePrompt = async (tab, text) => {
  await tab.type("#composer", text);
  await tab.key("Enter");
};
const waitAnswering = (tab) => tab.wait(() => !document.querySelector(".banner") && !document.querySelector(".outgoing"), "the host to answer");
const listPrompts = async (host, id) => (await host.rows(id)).filter((row) => row.kind === "prompt").map((row) => row.parts[0].text);

test("prompt_to_a_stopped_host_shows_as_sending_then_that_it_does_not_answer_and_is_sent_once", async (world) => {
  const host = await Host.start();
  const { id, tab } = await openOwn(world, { host, address: await host.signInAddress() });
  await startClock(tab, "keydown");
  host.child.kill("SIGSTOP");
  try {
    await typePrompt(tab, "say into the silence");
    await tab.waitText("sending…", ".outgoing");
    await tab.waitText("say into the silence", ".outgoing");
    assert.equal(await tab.run(() => document.querySelector("#composer").value), "", "the field is free");
    await tab.waitText("The host does not answer", ".banner");
    await tab.waitText("the host does not answer", ".outgoing");
    await checkClock(tab);
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
  // The time without a beat is let pass at once. A beat that was on its way begins it again.
  await tab.wait(() => {
    window.passWaits(25_000, "host_watch.js");
    return document.querySelector(".banner")?.innerText.includes("The host does not answer");
  }, "the notice");
  host.child.kill("SIGCONT");
  await waitAnswering(tab);
  assert.equal(await tab.run(() => document.body.textContent.includes("holds live data back")), false);
  await closeTab(world, tab);
  await host.stop();
});

test("another_session_of_a_stopped_host_is_told_to_be_silent_in_five_seconds", async (world) => {
  const host = await Host.start();
  const other = await host.session("rows", "say elsewhere");
  const { tab } = await openOwn(world, { host, address: await host.signInAddress() });
  await startClock(tab, "hashchange");
  host.child.kill("SIGSTOP");
  await tab.run((hash) => { location.hash = hash; }, `#/s/${other}`);
  await tab.waitText("The host does not answer", ".banner");
  await checkClock(tab);
  host.child.kill("SIGCONT");
  await waitAnswering(tab);
  await tab.waitText("elsewhere", ".row-message");
  await closeTab(world, tab);
  await host.stop();
});

test("sessions_that_are_opened_do_not_put_off_the_end_of_the_silence", async (world) => {
  const host = await Host.start();
  const { tab } = await openOwn(world, { host, address: await host.signInAddress() });
  const [before, after] = await withModule(tab, "store.js", ({ app, followRoute }) => {
    // Nothing comes from the host within one task.
    const find = () => window.findWaits(25_000, "host_watch.js");
    const waits = find();
    app.route = { kind: "list" };
    followRoute();
    return [waits, find()];
  });
  assert.equal(before.length, 1);
  assert.deepEqual(after, before, "the same wait goes on");
  await closeTab(world, tab);
  await host.stop();
});

test("tab_that_is_seen_again_asks_its_host_at_once", async (world) => {
  const host = await Host.start();
  const { tab } = await openOwn(world, { host, address: await host.signInAddress() });
  const show = (state) => tab.run((value) => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => value });
    document.dispatchEvent(new Event("visibilitychange", { bubbles: true }));
  }, state);
  await show("hidden");
  host.child.kill("SIGSTOP");
  await startClock(tab, "visibilitychange");
  await show("visible");
  await tab.waitText("The host does not answer", ".banner");
  await checkClock(tab);
  host.child.kill("SIGCONT");
  await waitAnswering(tab);
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
  try {
    await typePrompt(tab, "say after the tab");
    await tab.waitText("sending…", ".outgoing");
    await closeTab(world, tab);
  } finally {
    host.child.kill("SIGCONT");
  }
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
  const hears = await withModule(tab, "store.js", ({ app }) => {
    // The network is up: only the event says that it is not, and nothing comes from the host meanwhile.
    const before = app.hostAnswers;
    dispatchEvent(new Event("offline"));
    return [before, app.hostAnswers];
  });
  assert.deepEqual(hears, [true, false], "the event itself counts");
  await waitAnswering(tab);
  await network(true);
  await tab.waitText("The host does not answer", ".banner");
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
  await waitMessage(tab, "Not now");
  await tab.wait(() => document.querySelector("#composer").value === "first thought\n\nsecond thought", "both texts in the field");
  assert.equal(await tab.run(() => document.querySelector(".outgoing")), null);
  assert.equal(await withModule(tab, "drafts.js", ({ readDraft }, session) => readDraft(session), id), "first thought\n\nsecond thought");
});

test("prompt_that_a_proxy_never_takes_can_be_taken_back_although_the_host_answers", async (world) => {
  const { host, proxy, signIn } = await startBehindProxy();
  const { id, tab } = await openOwn(world, { host, address: await signIn() });
  proxy.status = 503;
  proxy.statusOf = "/prompt";
  await typePrompt(tab, "say never");
  await tab.click(".outgoing .take-back", "Take back");
  await tab.wait(() => document.querySelector("#composer").value === "say never" && !document.querySelector(".outgoing"), "the text in the field");
  assert.equal(await tab.run(() => document.querySelector(".banner")), null, "the host answers");
  proxy.status = 0;
  // Prompts are sent in order, so a prompt that was not taken back would be sent before this one.
  await withModule(tab, "outbox.js", ({ sendLater }, session) => sendLater({ session, text: "say after", images: [], files: [] }), id);
  await tab.waitText("after", ".row-message");
  await waitIdle({ host }, id);
  assert.deepEqual(await listPrompts(host, id), ["say before", "say after"]);
  tab.errors = tab.errors.filter((error) => !/status of 503/.test(error));
  await closeTab(world, tab);
  proxy.stop();
  await host.stop();
});

/** Has the requests of a tab to addresses with this text wait until `window.goOn` is called. */
const holdRequests = (tab, part) => tab.run((text) => {
  const real = window.fetch;
  const held = new Promise((resolve) => { window.goOn = resolve; });
  window.fetch = (url, options) => (String(url).includes(text) ? held.then(() => real(url, options)) : real(url, options));
}, part);

test("prompt_of_one_tab_is_kept_when_another_tab_is_done", async (world) => {
  const id = await world.host.session("rows", "say before");
  const one = await openPage(world, `#/s/${id}`);
  const two = await openPage(world, `#/s/${id}`, { context: one.context });
  for (const tab of [one, two]) await tab.waitText("before", ".row-message");
  await holdRequests(one, "/prompt");
  await typePrompt(one, "say of the first tab");
  await one.waitText("of the first tab", ".outgoing");
  await typePrompt(two, "say of the second tab");
  await two.waitText("of the second tab", ".row-message");
  await two.wait(() => !document.querySelector(".outgoing"), "the prompt to be taken");
  await closeTab(world, one);
  const three = await openPage(world, `#/s/${id}`, { context: two.context });
  await three.waitText("of the first tab", ".row-message");
  await waitIdle(world, id);
  assert.deepEqual(await listPrompts(world.host, id), ["say before", "say of the second tab", "say of the first tab"]);
});

test("prompt_that_is_taken_back_in_one_tab_is_not_sent_by_another", async (world) => {
  const id = await world.host.session("rows", "say before");
  const lose = 'const real = fetch; window.fetch = (url, options) => (String(url).endsWith("/prompt") && !window.isBack ? Promise.reject(new TypeError("lost")) : real(url, options));';
  const noLocks = 'Object.defineProperty(Navigator.prototype, "locks", { value: undefined });';
  const openLosing = async (context) => {
    const tab = await openPage(world, `#/s/${id}`, { context });
    await tab.send("Page.addScriptToEvaluateOnNewDocument", { source: lose + noLocks });
    await tab.reload();
    await tab.wait(() => navigator.locks === undefined, "the page without locks");
    await tab.waitText("before", ".row-message");
    return tab;
  };
  const one = await openLosing();
  const two = await openLosing(one.context);
  await typePrompt(one, "say once");
  await one.waitText("say once", ".outgoing");
  await withModule(two, "outbox.js", ({ resumeOutbox }) => resumeOutbox());
  await two.waitText("say once", ".outgoing");
  await withModule(one, "outbox.js", ({ listOutgoing, takeBack }, session) => takeBack(listOutgoing(session)[0]), id);
  await two.wait(() => !document.querySelector(".outgoing"), "the prompt to go");
  for (const tab of [one, two]) await tab.run(() => { window.isBack = true; });
  const later = ({ sendLater }, session) => sendLater({ session, text: "say after", images: [], files: [] });
  await withModule(two, "outbox.js", later, id);
  await two.waitText("after", ".row-message");
  await waitIdle(world, id);
  assert.deepEqual(await listPrompts(world.host, id), ["say before", "say after"]);
});

// Over plain HTTP browsers have no locks.
for (const [suffix, hasLocks] of [["", true], ["_also_without_locks", false]]) {
  test(`prompt_whose_image_another_tab_uploads_stays_with_that_tab${suffix}`, async (world) => {
    const id = await world.host.session("rows", "say before");
    const one = await openPage(world, `#/s/${id}`);
    await one.waitText("before", ".row-message");
    await one.run(async () => {
      const canvas = Object.assign(document.createElement("canvas"), { width: 20, height: 20 });
      const blob = await new Promise((resolve) => canvas.toBlob(resolve));
      const data = new DataTransfer();
      data.items.add(new File([blob], "shot.png", { type: "image/png" }));
      document.querySelector("#composer").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
    });
    await one.waitFor(".attachment img");
    await holdRequests(one, "/uploads");
    await typePrompt(one, "say with an image");
    await one.waitText("with an image", ".outgoing");
    const two = await openPage(world, `#/s/${id}`, { context: one.context });
    if (!hasLocks) {
      await two.send("Page.addScriptToEvaluateOnNewDocument", { source: 'Object.defineProperty(Navigator.prototype, "locks", { value: undefined });' });
      await two.reload();
      await two.wait(() => navigator.locks === undefined, "the page without locks");
    }
    await two.waitText("before", ".row-message");
    // The tab that was opened later would have taken it up by now.
    await withModule(two, "outbox.js", async ({ resumeOutbox }) => {
      resumeOutbox();
      await navigator.locks?.query();
    });
    assert.equal(await two.run(() => document.querySelector("#composer").value), "", "the other tab has it");
    await one.run(() => window.goOn());
    await two.wait(() => document.querySelector(".row-prompt .image"), "the prompt with its image");
    await waitIdle(world, id);
    assert.deepEqual(await listPrompts(world.host, id), ["say before", "say with an image"]);
    assert.equal(await two.run(() => document.querySelector("#composer").value), "", "the other tab had it");
    await two.wait(() => !Object.keys(localStorage).some((key) => key.includes(":outbox:")), "nothing to be kept");
  });
}
