// Measures the page in headless Chromium, one JSON line per measure: node bench.mjs [PART OF A MEASURE'S NAME]
// WHARF_PAGE_ROWS: events of the long session; WHARF_PAGE_MINUTES: minutes of the flood whose heap is compared;
// WHARF_PAGE_FRAMES_SECONDS: seconds of each flood whose frames are measured.
import { Browser } from "./browser.mjs";
import { Host } from "./host.mjs";

const ROWS = Number(process.env.WHARF_PAGE_ROWS ?? 100_000);
const MINUTES = Number(process.env.WHARF_PAGE_MINUTES ?? 30);
const RATE = 1000;
const FRAMES_SECONDS = Number(process.env.WHARF_PAGE_FRAMES_SECONDS ?? 60);
const ROUNDS = 7;

const report = (measure, figures) => console.log(JSON.stringify({ measure, ...figures }));
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
const pass = (millis) => new Promise((resolve) => setTimeout(resolve, millis));

/** The first load, with an empty cache. */
async function page_first_load(_, tab) {
  const entries = () => performance.getEntriesByType("resource").filter((entry) => /\/page\/|manifest/.test(entry.name)).concat(performance.getEntriesByType("navigation")).map((entry) => entry.encodedBodySize);
  const sizes = await tab.run(entries);
  const bytes = sizes.reduce((sum, one) => sum + one, 0);
  return { compressed_kb: Math.round(bytes / 102.4) / 10, files: sizes.length, target_kb: 120, met: bytes <= 120 * 1024 };
}

/** The time from navigation to the first row of the list on the screen. */
async function page_list(host, tab) {
  for (let count = 0; count < 20; count += 1) await host.session("rows");
  await tab.send("Page.addScriptToEvaluateOnNewDocument", { source: `new MutationObserver((_, self) => {
    if (!document.querySelector(".list .item")) return;
    self.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => { window.paintedAt = performance.now(); }));
  }).observe(document, { childList: true, subtree: true });` });
  const paints = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    await tab.run(() => { window.paintedAt = undefined; });
    await tab.send("Page.reload");
    paints.push(await tab.wait(() => window.paintedAt, "the list"));
  }
  return { median_ms: Math.round(median(paints)), max_ms: Math.round(Math.max(...paints)), target_ms: 300, met: median(paints) <= 300 };
}

/** The time from the tap on a long session to its newest rows on the screen. */
async function page_long_session(host, tab) {
  const long = await host.session("rows");
  await host.call("POST", `sessions/${long}/prompt`, { prompt: `rows ${ROWS}` });
  while ((await host.call("GET", `sessions/${long}`)).turn !== "idle") await pass(500);
  await host.call("GET", `sessions/${long}/rows?limit=1`);
  const opens = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    await tab.run(() => { location.hash = "#/"; });
    await tab.wait(() => !document.querySelector(".transcript"), "the list alone");
    opens.push(await tab.run((hash) => new Promise((resolve) => {
      const begin = performance.now();
      const look = () => (document.querySelector(".row-turn_end") ? requestAnimationFrame(() => resolve(performance.now() - begin)) : requestAnimationFrame(look));
      location.hash = hash;
      look();
    }), `#/s/${long}`));
  }
  return { events: ROWS, median_ms: Math.round(median(opens)), max_ms: Math.round(Math.max(...opens)), target_ms: 500, met: median(opens) <= 500 };
}

/** Opens a session into which a thousand updates a second come, for so long: in messages of a hundred, or in a single one. */
async function openFlood(host, tab, seconds, word = "flood") {
  const id = await host.session("rows");
  await tab.run((hash) => { location.hash = hash; }, `#/s/${id}`);
  await tab.waitFor(".composer textarea");
  await host.prompt(id, `${word} ${seconds} ${RATE}`, false);
  await tab.waitFor(".row-message");
}

/** Returns the number of the last update that the page shows: each but every hundredth one is a word with its number. */
const lastUpdate = (tab) => tab.run(() => Number([...document.querySelectorAll(".row-message")].at(-1)?.textContent.match(/word(\d+) ?$/)?.[1] ?? 0));

/** A page that stands still has smooth frames, too: only one that draws what comes has met its aim. */
const drawsAll = (shownPerSecond) => shownPerSecond >= 0.9 * RATE;
/** The longest time without a newer update in a frame. */
const MAX_STANDSTILL_MS = 1000;

/** Measures each frame for so long: the gap before it, and the newest update that it draws. */
const watchFrames = (tab, seconds) => tab.run((length) => new Promise((resolve) => {
  const readNewest = () => {
    let node = [...document.querySelectorAll(".row-message .markdown, .row-message .text-tail")].at(-1);
    while (node?.lastChild) node = node.lastChild;
    return Number(node?.data?.slice(-40).match(/word(\d+) ?$/)?.[1] ?? 0);
  };
  const [gaps, begin, first] = [[], performance.now(), readNewest()];
  let [last, newest, newestAt, standstill] = [begin, first, begin, 0];
  const frame = (now) => {
    gaps.push(now - last);
    last = now;
    const number = readNewest();
    if (number > newest) [newest, newestAt] = [number, now];
    standstill = Math.max(standstill, now - newestAt);
    if (now < begin + length * 1000) requestAnimationFrame(frame);
    else resolve({ gaps, standstill, shown: (newest - first) / ((now - begin) / 1000) });
  };
  requestAnimationFrame(frame);
}), seconds);

/** The gaps between frames while a thousand updates a second come, and how many of these are drawn. */
async function measureFrames(host, tab, word) {
  await openFlood(host, tab, FRAMES_SECONDS, word);
  const { gaps, standstill, shown } = await watchFrames(tab, FRAMES_SECONDS - 4);
  const over = gaps.filter((gap) => gap > 50).length;
  await pass(5000);
  const met = over === 0 && drawsAll(shown) && standstill <= MAX_STANDSTILL_MS;
  return { shown_per_second: Math.round(shown), updates_per_second: RATE, longest_standstill_ms: Math.round(standstill), frames: gaps.length, median_ms: Math.round(median(gaps)), max_ms: Math.round(Math.max(...gaps)), over_50_ms: over, met };
}
const page_frames = (host, tab) => measureFrames(host, tab, "flood");
/** The same with all updates in one answer, which soon is larger than its row. */
const page_long_answer = (host, tab) => measureFrames(host, tab, "pour");

/** The CPU time of the longest task of the page's thread at the same rate. Unlike the gaps, it hardly depends on other programs. */
async function page_tasks(host, tab, browser) {
  await openFlood(host, tab, FRAMES_SECONDS);
  const [before, begin] = [await lastUpdate(tab), Date.now()];
  const tasks = await browser.traceTasks(() => pass((FRAMES_SECONDS - 10) * 1000));
  const shown = ((await lastUpdate(tab)) - before) / ((Date.now() - begin) / 1000);
  const longest = tasks.reduce((one, other) => Math.max(one, other), 0);
  await pass(10_000);
  return { shown_per_second: Math.round(shown), updates_per_second: RATE, tasks: tasks.length, longest_cpu_ms: Math.round(longest * 10) / 10, target_ms: 50, met: longest <= 50 && drawsAll(shown) };
}

/** The heap after collection, a third of the way and at the end. */
async function page_heap(host, tab) {
  const weigh = async () => {
    await tab.send("HeapProfiler.collectGarbage");
    const heap = (await tab.send("Runtime.getHeapUsage")).usedSize / (1 << 20);
    return [heap, await tab.run(() => document.querySelectorAll("[data-row]").length)];
  };
  await openFlood(host, tab, MINUTES * 60);
  const begin = Date.now();
  await pass(MINUTES * 20_000);
  const [early, rowsEarly] = await weigh();
  await pass(MINUTES * 40_000 - 5000);
  const [late, rowsLate] = await weigh();
  const shown = (await lastUpdate(tab)) / ((Date.now() - begin) / 1000);
  const growth = ((late - early) / early) * 100;
  return { minutes: MINUTES, updates_per_second: RATE, shown_per_second: Math.round(shown), early_mb: Math.round(early * 10) / 10, late_mb: Math.round(late * 10) / 10, growth_percent: Math.round(growth * 10) / 10, rows: [rowsEarly, rowsLate], met: growth < 20 && drawsAll(shown) };
}

const host = await Host.start();
const browser = await Browser.launch();
const tab = await browser.open();
await tab.go(await host.signInAddress());
await tab.waitFor(".side-head");
for (const measure of [page_first_load, page_list, page_long_session, page_frames, page_long_answer, page_tasks, page_heap]) {
  if (measure.name.includes(process.argv[2] ?? "")) report(measure.name, await measure(host, tab, browser));
}
await browser.close();
await host.stop();
