// Push messages as the service worker shows them, and what becomes of them.
import { assert, openPage, test, waitIdle } from "./suite.mjs";

/** Opens a page that may notify. Returns it with a function that delivers a push message as the browser's service does. */
async function openWithPush(world) {
  const tab = await openPage(world);
  await world.browser.send("Browser.grantPermissions", { origin: world.host.url, permissions: ["notifications"], browserContextId: tab.context });
  const registered = new Promise((resolve) => {
    tab.onEvent = (method, params) => {
      const own = method === "ServiceWorker.workerRegistrationUpdated" && params.registrations.find((one) => one.scopeURL.startsWith(world.host.url));
      if (own) resolve(own.registrationId);
    };
  });
  await tab.send("ServiceWorker.enable");
  const registrationId = await registered;
  await tab.run(() => navigator.serviceWorker.ready.then(() => true));
  const push = (data) => tab.send("ServiceWorker.deliverPushMessage", { origin: `${world.host.url}/`, registrationId, data: typeof data === "string" ? data : JSON.stringify(data) });
  return { tab, push };
}

/** Waits until so many notifications are shown, and returns them. */
const shownNotifications = (tab, count) => tab.wait(async (wanted) => {
  const registration = await navigator.serviceWorker.ready;
  const shown = await registration.getNotifications();
  return shown.length === wanted ? shown.map(({ title, body, tag, data }) => ({ title, body, tag, target: data.target })) : null;
}, `${count} notifications`, count);

test("push_message_is_shown_and_goes_when_it_no_longer_holds", async (world) => {
  const { tab, push } = await openWithPush(world);
  const id = await world.host.session("demo", "ask", { wait: false });
  await tab.waitFor(`.state-needs_answer [data-session="${id}"]`);
  const target = `#/s/${id}/r/1-9`;
  await push({ title: "blog · Fix the parser", body: "asks: rm -rf build", tag: id, target });
  assert.deepEqual(await shownNotifications(tab, 1), [{ title: "blog · Fix the parser", body: "asks: rm -rf build", tag: id, target }]);
  const [ask] = (await world.host.call("GET", `sessions/${id}/asks`)).asks;
  await world.host.call("POST", `sessions/${id}/asks/${ask.askId}`, { optionId: "reject_once" });
  await waitIdle(world, id);
  await tab.wait(async () => (await (await navigator.serviceWorker.ready).getNotifications()).length === 0, "the notification to go");
});

test("push_message_that_cannot_be_read_or_points_elsewhere_leads_to_the_list", async (world) => {
  const { tab, push } = await openWithPush(world);
  await push("no json");
  assert.deepEqual(await shownNotifications(tab, 1), [{ title: "Wharf", body: "A session needs you.", tag: "wharf", target: "#/" }]);
  await push({ title: "x", tag: "wharf", target: "https://evil.example/" });
  await tab.wait(async () => (await (await navigator.serviceWorker.ready).getNotifications()).some((one) => one.title === "x" && one.data.target === "#/"), "the target to be the list");
  await push({ title: "y", tag: "wharf", target: { no: "text" } });
  await tab.wait(async () => (await (await navigator.serviceWorker.ready).getNotifications()).some((one) => one.title === "y" && one.data.target === "#/"), "a target that is no text to be the list");
});
