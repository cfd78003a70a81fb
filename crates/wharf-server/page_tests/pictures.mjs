// Makes the pictures of the documentation from the demo agent: node pictures.mjs FOLDER
import path from "node:path";
import { Browser } from "./browser.mjs";
import { Host } from "./host.mjs";

const folder = process.argv[2] ?? "docs/images";
const host = await Host.start();
const browser = await Browser.launch();
const settled = () => new Promise((resolve) => setTimeout(resolve, 700));

/** Starts a session of the demo agent with a title. */
async function session(title, prompt, { answer = null, wait = true } = {}) {
  const id = await host.session("demo");
  await host.call("PATCH", `sessions/${id}`, { title });
  await host.prompt(id, prompt, wait && !answer);
  if (answer) {
    for (let asks = []; !asks.length; ) asks = (await host.call("GET", `sessions/${id}/asks`)).asks;
    const [ask] = (await host.call("GET", `sessions/${id}/asks`)).asks;
    await host.call("POST", `sessions/${id}/asks/${ask.askId}`, { optionId: answer });
    while ((await host.call("GET", `sessions/${id}`)).turn !== "idle") await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return id;
}

await session("Write the release notes", "plan");
await session("Why is the build slow?", "think");
const failed = await session("Upgrade the parser", "error");
const done = await session("Make the greeting friendlier", "tour", { answer: "allow_once" });
await session("Translate the posts", "hang", { wait: false });
const asking = await session("Rename the harbour", "tour", { wait: false });
while (!(await host.call("GET", `sessions/${asking}/asks`)).asks.length) await new Promise((resolve) => setTimeout(resolve, 50));
await host.prompt(asking, "then write a test for it", false);

const tab = await browser.open();
await tab.go(await host.signInAddress());
await tab.waitFor(".list .item");
const show = async (route, name, { selector = ".row", width = 1280, height = 800, phone = false, scheme = "light", prepare = null } = {}) => {
  await tab.size(width, height, phone);
  await tab.colours(scheme);
  await tab.run((hash) => { location.hash = hash; }, route);
  await tab.waitFor(selector);
  if (prepare) await prepare();
  await settled();
  await tab.picture(path.join(folder, `${name}.png`));
};
await tab.click(".offer button", "Not now");
await show(`#/s/${asking}`, "page", { selector: ".dock" });
await show(`#/s/${done}`, "page-dark", { scheme: "dark" });
await show("#/", "page-phone-list", { selector: ".item", width: 390, height: 844, phone: true });
await show(`#/s/${asking}`, "page-phone-ask", { selector: ".dock .review", width: 390, height: 844, phone: true, prepare: () => tab.click(".dock .review") });
console.log(`pictures of ${asking}, ${done} and ${failed} are in ${folder}`);
await browser.close();
await host.stop();
