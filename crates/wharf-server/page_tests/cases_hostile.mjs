import fs from "node:fs";
import { assert, openPage, test, waitIdle, withModule } from "./suite.mjs";

test("hostile_text_stays_text", async (world) => {
  const id = await world.host.session("rows");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.run(() => { window.pwned = 0; });
  const texts = [
    "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'><svg onload='window.pwned=3'>",
    "[click](javascript:window.pwned=4) [data](data:text/html,<script>1</script>) ![image](https://evil.example/pixel.png) [good](https://example.com/)",
    "right \\u202eto left\\u202c, zero \\u0007 bell, escape \\u001b[31mred",
    "| a | b |\\n|---|---|\\n| <b>x</b> | y |\\n\\n```js\\nconst a = '<script>window.pwned = 5</script>';\\n```\\n",
    "> ".repeat(60) + "deep",
    "- ".repeat(60) + "deep list",
    "\\ud83d\\ude80 emoji \\u2028 separators \\u2029 and \\ufffd",
  ];
  for (const text of texts) await world.host.prompt(id, `say ${text}`);
  await waitIdle(world, id);
  await tab.waitText("separators", ".row-message");
  await tab.waitText("U+202E", ".row-message");
  await tab.waitFor(".row-message pre .hl-keyword");
  assert.equal(await tab.run(() => window.pwned), 0);
  assert.equal(await tab.run(() => document.querySelectorAll(".transcript script, .transcript img, .transcript svg, .transcript b").length), 0);
  const links = await tab.run(() => [...document.querySelectorAll(".row-message a")].map((link) => [link.textContent, link.getAttribute("href"), link.rel]));
  assert.deepEqual(links.map(([, href]) => href).filter(Boolean).sort(), ["https://evil.example/pixel.png", "https://example.com/"]);
  assert.ok(links.filter(([, href]) => href).every(([, , rel]) => rel.includes("noopener") && rel.includes("noreferrer")));
  await tab.picture(world.picture("hostile"));
});

/** Reads the list of odd characters (rule 19.5): ranges that are marked, and texts with what is shown of them. */
function readOddCharacters() {
  const unescape = (text) => text.replace(/\\u\{([0-9A-F]+)\}/g, (_, digits) => String.fromCodePoint(parseInt(digits, 16)));
  // `cargo xtask page` runs these tests in the root of the repository.
  const lines = fs.readFileSync("fixtures/text/odd_characters.txt", "utf8").split("\n");
  const ranges = lines.map((line) => /^marked ([0-9A-F]+)(?:-([0-9A-F]+))?$/.exec(line)).filter(Boolean).map(([, first, last]) => [parseInt(first, 16), parseInt(last ?? first, 16)]);
  const texts = lines.map((line) => /^case (.*) => (.*)$/.exec(line)).filter(Boolean).map(([, text, shown]) => [unescape(text), unescape(shown)]);
  assert.ok(ranges.length >= 20 && texts.length >= 20, "the list is read");
  return { ranges, texts };
}

test("invisible_characters_are_shown_by_their_names_as_the_list_says", async (world) => {
  const { ranges, texts } = readOddCharacters();
  const tab = await openPage(world);
  const differences = await withModule(tab, "text.js", ({ appendText, plainText }, { ranges, texts }) => {
    const found = [];
    /** Returns what a person sees, with the marks as plain text has them. */
    const show = (text) => {
      const box = document.createElement("div");
      appendText(box, text);
      box.querySelectorAll(".odd-character").forEach((mark) => { mark.textContent = `[${mark.textContent}]`; });
      return box.textContent;
    };
    for (const [text, shown] of texts) if (show(text) !== shown || plainText(text) !== shown) found.push([text, shown, show(text), plainText(text)]);
    for (let point = 0xa0; point <= 0x10ffff; point += 1) {
      if (point >= 0xd800 && point <= 0xdfff) continue;
      const character = String.fromCodePoint(point);
      const isMarked = ranges.some(([first, last]) => point >= first && point <= last);
      const isOdd = plainText(`a${character}`) !== `a${character}`;
      if (isMarked !== isOdd) found.push(`U+${point.toString(16)} is ${isOdd ? "" : "not "}marked`);
    }
    return found.slice(0, 40);
  }, { ranges, texts });
  assert.deepEqual(differences, []);
});

test("invisible_characters_in_messages_titles_and_tools_are_marked", async (world) => {
  const id = await world.host.session("rows", "say rm\\u200b -rf \\ud83d\\udc69\\u200d\\ud83d\\udc67 `co\\u00adde\\u3164`\\n\\n    blo\\u2060ck\\n");
  await world.host.call("PATCH", `sessions/${id}`, { title: "safe\u2800\u{e0041}title" });
  const tab = await openPage(world, `#/s/${id}`);
  await tab.waitText("rmU+200B -rf 👩\u200d👧 coU+00ADdeU+3164", ".row-message");
  await tab.waitText("bloU+2060ck", ".row-message pre");
  for (const place of [".session-title", ".list"]) await tab.waitText("safe[U+2800][U+E0041]title", place);
  await tab.picture(world.picture("invisible"));
});

test("title_and_file_names_of_an_agent_stay_text", async (world) => {
  const id = await world.host.session("demo", "echo x");
  await world.host.call("PATCH", `sessions/${id}`, { title: "<img src=x onerror=window.pwned=1> \u202eevil" });
  const tab = await openPage(world);
  await tab.waitText("<img src=x", ".list");
  assert.equal(await tab.run(() => window.pwned === undefined && document.querySelectorAll(".list img").length === 0), true);
});

test("line_of_five_megabytes_is_cut_and_can_be_read", async (world) => {
  const id = await world.host.session("rows", "line 5000000");
  const tab = await openPage(world, `#/s/${id}`);
  await tab.click("button", "Show the whole text (4.8 MB)");
  await tab.waitFor(".row-message pre.output");
  await tab.click(".row-message button", "More");
  await tab.wait(() => document.querySelector(".row-message pre.output").textContent.length > 50_000, "more of the text");
  assert.equal(await tab.run(() => document.documentElement.scrollWidth <= innerWidth), true);
});

test("session_of_ten_thousand_rows_opens_at_its_end_and_scrolls_back_steadily", async (world) => {
  const id = await world.host.session("rows", "rows 10000");
  const tab = await openPage(world);
  const begin = Date.now();
  await tab.run((hash) => { location.hash = hash; }, `#/s/${id}`);
  await tab.waitText("Message 9998", ".row-message");
  console.log(`  opened in ${Date.now() - begin} ms`);
  let before = await tab.run(() => document.querySelectorAll("[data-row]").length);
  for (let round = 0; round < 4; round += 1) {
    // The place of a row in each frame, from some frames before older rows are put in above it until some frames after.
    const moved = await tab.run(async (count) => {
      const scroller = document.querySelector(".transcript");
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      const find = () => [...scroller.querySelectorAll("[data-row]")].find((row) => row.getBoundingClientRect().top > scroller.getBoundingClientRect().top);
      // Rows that come into view for the first time may take another height than was thought; that is over before older ones come.
      scroller.scrollTop = 1400;
      for (let left = 15; left > 0; left -= 1) await frame();
      while (scroller.scrollTop >= 880) {
        scroller.scrollTop -= 40;
        await frame();
      }
      let row = find();
      let last = row.getBoundingClientRect().top;
      while (document.querySelectorAll("[data-row]").length <= count) {
        row = find();
        last = row.getBoundingClientRect().top;
        await frame();
      }
      for (let left = 10; left > 0; left -= 1) await frame();
      return Math.abs(row.getBoundingClientRect().top - last);
    }, before);
    assert.ok(moved <= 2, `the rows moved by ${moved} pixels`);
    before = await tab.run(() => document.querySelectorAll("[data-row]").length);
  }
  await tab.click(".jump");
  await tab.wait(() => {
    const scroller = document.querySelector(".transcript");
    return scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 5;
  }, "the end");
  assert.ok(await tab.run(() => document.querySelectorAll("[data-row]").length) < 1500);
});

test("seven_tabs_work_over_plain_http", async (world) => {
  const id = await world.host.session("demo", "echo tabs");
  const first = await openPage(world, `#/s/${id}`);
  const tabs = [first];
  for (let count = 1; count < 7; count += 1) tabs.push(await openPage(world, `#/s/${id}`, { context: first.context }));
  for (const tab of tabs) await tab.waitText("tabs", ".row-message");
  await tabs[6].type("#composer", "echo from the seventh");
  await tabs[6].key("Enter");
  for (const tab of tabs) await tab.waitText("from the seventh", ".row-message");
  for (const tab of tabs.slice(1)) await tab.close();
  world.tabs = world.tabs.filter((tab) => tab === first);
});
