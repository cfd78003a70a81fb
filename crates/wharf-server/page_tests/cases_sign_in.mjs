import { Host } from "./host.mjs";
import { startBehindProxy } from "./proxy.mjs";
import { assert, openPage, test, waitMessage, withModule } from "./suite.mjs";

test("code_in_the_address_signs_in_once_and_is_gone_from_the_address", async (world) => {
  const address = await world.host.signInAddress();
  const tab = await openPage(world);
  assert.equal(await tab.run(() => location.href), `${world.host.url}/`);
  assert.equal(await tab.run(() => history.length <= 2), true);
  const other = await world.browser.open();
  await other.go(address);
  await other.waitFor(".side-head");
  assert.deepEqual(other.errors, []);
  const third = await world.browser.open();
  await third.go(address);
  await third.waitText("was used already", ".login");
  assert.equal(await third.run(() => location.hash), "");
  await third.close();
  await other.close();
});

/** Returns the addresses of the tab's history. */
const readHistory = async (tab) => (await tab.send("Page.getNavigationHistory")).entries.map((entry) => entry.url);

test("code_in_an_address_that_comes_into_a_page_that_is_shown_signs_in", async (world) => {
  const paste = (tab, address) => tab.run((url) => { location.href = url; }, address);
  const tab = await openPage(world, "#/about");
  await tab.waitText("Libraries");
  const address = await world.host.signInAddress({ role: "observer" });
  await paste(tab, address);
  await tab.wait(() => !document.querySelector(".new-link"), "the login of an observer");
  assert.equal(await tab.run(() => location.hash), "#/about", "the page stays where it was");
  await paste(tab, address);
  await waitMessage(tab, "was used already");
  assert.equal(await tab.run(() => document.querySelector(".side-head") !== null), true, "the login that there is stays");
  assert.deepEqual((await readHistory(tab)).filter((url) => url.includes("c=")), []);
  const other = await world.browser.open();
  world.tabs.push(other);
  await other.go(world.host.url);
  await other.waitFor(".code-field");
  await paste(other, address);
  await other.waitText("was used already", ".login");
  await paste(other, await world.host.signInAddress());
  await other.waitFor(".side-head");
  assert.deepEqual((await readHistory(other)).filter((url) => url.includes("c=")), []);
  for (const one of [tab, other]) one.errors = one.errors.filter((error) => !/the server responded with a status of 4\d\d/.test(error));
});

test("expired_and_foreign_codes_have_their_own_sentences", async (world) => {
  const tab = await world.browser.open();
  const { code } = await world.host.call("POST", "login/codes", {});
  // Ends the time of the code.
  await world.host.call("DELETE", "login/codes");
  await tab.go(`${world.host.url}/#c=${code}`);
  await tab.waitText("has expired", ".login");
  await tab.type(".code-field", "AAAA-BBBB");
  await tab.click("button.send");
  await tab.waitText("has not made such a code", ".login");
  await tab.picture(world.picture("sign_in"));
  await tab.close();
});

test("code_can_be_typed", async (world) => {
  const { code } = await world.host.call("POST", "login/codes", {});
  const tab = await world.browser.open();
  world.tabs.push(tab);
  await tab.go(world.host.url);
  await tab.type(".code-field", code.toLowerCase().replace("-", " "));
  await tab.key("Enter");
  await tab.waitFor(".side-head");
});

test("cookie_without_the_page_key_opens_nothing", async (world) => {
  const tab = await openPage(world);
  assert.equal(await tab.run(() => document.cookie), "");
  assert.equal(await tab.run(async () => (await fetch("sessions")).status), 401);
  tab.errors.length = 0;
});

test("device_can_be_named_and_signed_out_from_another_one", async (world) => {
  const id = await world.host.session("demo", "echo said before");
  const [one, two] = [await openPage(world, "#/devices"), await openPage(world)];
  await one.waitText("this device");
  await one.click(".device button", "Rename");
  await one.run(() => { document.querySelector(".device input").value = ""; });
  await one.type(".device input", "my desk");
  await one.key("Enter");
  await one.waitText("my desk", ".devices");
  const other = (await world.host.call("GET", "logins")).logins[0];
  assert.ok(other.lastSeenAt);
  await two.run((hash) => { location.hash = hash; }, `#/s/${id}`);
  await two.type("#composer", "a secret draft");
  await two.wait(() => Object.keys(localStorage).some((key) => key.includes(":draft:")), "the draft to be kept");
  await one.click("button", "Sign out all others");
  await two.waitText("This device was signed out");
  assert.deepEqual(await two.run(() => Object.keys(localStorage).filter((key) => !key.includes(":stream:"))), [], "key and drafts are gone");
  assert.equal(await two.run(() => document.body.textContent.includes("said before")), false, "the transcript is gone");
  two.errors.length = 0;
  await one.wait(() => document.querySelectorAll(".device").length === 1, "all others to be signed out");
  await one.click("button", "Sign this device out");
  await one.waitFor(".code-field");
});

test("observer_sees_sessions_and_no_controls", async (world) => {
  const id = await world.host.session("demo", "ask", { wait: false });
  const tab = await openPage(world, "", { code: { role: "observer" } });
  await tab.wait(() => document.querySelector(".side-foot a")?.textContent !== "Devices", "the login");
  await tab.run((hash) => { location.hash = hash; }, `#/s/${id}`);
  await tab.waitText("not answer it");
  await tab.waitText("look at this session, not change it");
  assert.equal(await tab.run(() => [...document.querySelectorAll(".ask-options button, .composer textarea, .new-link, .item .review, select")].filter((one) => one.getClientRects().length).length), 0);
  await tab.click('.menu button[aria-label="More"]');
  assert.deepEqual(await tab.run(() => [...document.querySelectorAll(".menu-list button")].map((one) => one.textContent)), ["Changed files", "Find in session", "Mute", "Copy link", "Export as Markdown"]);
  await tab.run(() => { location.hash = "#/devices"; });
  await tab.waitText("this device");
  assert.deepEqual(await tab.run(() => [...document.querySelectorAll(".device button, .page > .ask-options button")].map((one) => one.textContent)), ["Sign this device out"]);
  await world.host.call("POST", `sessions/${id}/kill`);
});

test("every_route_that_changes_something_refuses_an_observer", async (world) => {
  const id = await world.host.session("demo", "echo x");
  const tab = await openPage(world, "", { code: { role: "observer" } });
  const { paths } = await world.host.call("GET", "openapi.json");
  const routes = Object.entries(paths).flatMap(([path, methods]) => Object.keys(methods).filter((method) => ["post", "put", "patch", "delete"].includes(method)).map((method) => [method.toUpperCase(), path.slice(1).replace("{id}", id).replaceAll(/\{\w+\}/g, "x")]));
  assert.ok(routes.length > 25, `${routes.length} routes`);
  const taken = await withModule(tab, "api.js", async (api, wanted) => {
    const statuses = [];
    for (const [method, path] of wanted) statuses.push([method, path, (await api.send(method, path, { body: {} })).status]);
    return statuses.filter(([, , status]) => status < 400);
  }, routes.filter(([, path]) => path !== "logout"));
  // A person's own marks, and codes that they have made, are theirs to change, whatever they may do.
  assert.deepEqual(taken.filter(([, path]) => !/\/(seen|mute)$|^login\/codes$/.test(path)), []);
  assert.equal((await world.host.call("GET", `sessions/${id}`)).title, "echo x");
  tab.errors.length = 0;
});

for (const strip of [true, false]) {
  test(`page_works_behind_a_proxy_with_a_prefix_${strip ? "that_is_removed" : "that_is_kept"}`, async (world) => {
    const { host, proxy, signIn } = await startBehindProxy({ prefix: "/wharf", strip });
    const tab = await world.browser.open();
    await tab.go(await signIn());
    await tab.waitFor(".side-head");
    const cookies = (await tab.send("Network.getCookies")).cookies;
    assert.deepEqual(cookies.map((cookie) => [cookie.name, cookie.path, cookie.httpOnly, cookie.sameSite]), [["wharf_login", "/wharf/", true, "Strict"]]);
    await host.session("demo", "echo through the proxy");
    await tab.click(".item a");
    await tab.waitText("through the proxy", ".row-message");
    assert.deepEqual(tab.errors, []);
    await tab.close();
    proxy.stop();
    await host.stop();
  });
}

test("page_works_behind_a_proxy_with_tls", async (world) => {
  const { host, proxy, signIn } = await startBehindProxy({ scheme: "https" });
  const tab = await world.browser.open();
  await tab.send("Security.setIgnoreCertificateErrors", { ignore: true });
  await tab.go(await signIn());
  await tab.waitFor(".side-head");
  const [cookie] = (await tab.send("Network.getCookies")).cookies;
  assert.equal(cookie.secure, true);
  await host.session("demo", "echo over tls");
  await tab.click(".item a");
  await tab.waitText("over tls", ".row-message");
  await tab.close();
  proxy.stop();
  await host.stop();
});

test("auth_none_is_refused_with_public_url_and_for_forwarded_requests", async () => {
  await assert.rejects(Host.start('public_url = "https://box.example"', ["--auth", "none"]), /public_url/);
  const open = await Host.start("", ["--auth", "none"]);
  assert.equal((await fetch(`${open.url}/sessions`)).status, 200);
  assert.equal((await fetch(`${open.url}/sessions`, { headers: { "x-forwarded-for": "10.0.0.1" } })).status, 401);
  await open.stop();
});

test("host_without_tokens_shows_the_page_at_once", async (world) => {
  const open = await Host.start("", ["--auth", "none"]);
  const tab = await world.browser.open();
  await tab.go(open.url);
  await tab.waitText("What should an agent do?");
  assert.deepEqual(tab.errors, []);
  await tab.close();
  await open.stop();
});
