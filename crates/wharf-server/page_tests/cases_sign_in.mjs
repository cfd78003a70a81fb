import http from "node:http";
import https from "node:https";
import fs from "node:fs";
import path from "node:path";
import { execFileSync } from "node:child_process";
import { Host } from "./host.mjs";
import { assert, openPage, test } from "./suite.mjs";

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

test("expired_and_foreign_codes_have_their_own_sentences", async (world) => {
  const tab = await world.browser.open();
  const { code } = await world.host.call("POST", "login/codes", { codeSeconds: 1 });
  await new Promise((resolve) => setTimeout(resolve, 1100));
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
  const [one, two] = [await openPage(world, "#/devices"), await openPage(world)];
  await one.waitText("this device");
  await one.click(".device button", "Rename");
  await one.run(() => { document.querySelector(".device input").value = ""; });
  await one.type(".device input", "my desk");
  await one.key("Enter");
  await one.waitText("my desk", ".devices");
  const other = (await world.host.call("GET", "logins")).logins[0];
  assert.ok(other.lastSeenAt);
  await one.click("button", "Sign out all others");
  await two.waitText("This device was signed out");
  assert.equal(await two.run(() => Object.keys(localStorage).some((key) => key.endsWith(":key"))), false);
  two.errors.length = 0;
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
  assert.equal(await tab.run(() => [...document.querySelectorAll(".ask-options button, .composer textarea, .side-head a.button, .item .review, select")].filter((one) => one.getClientRects().length).length), 0);
  assert.equal(await tab.run(async () => (await import(document.querySelector("script[type=module]").src.replace("main.js", "api.js"))).post("sessions/agent", { adapter: "demo" }).then(() => "taken", (error) => error.code)), "observer");
  tab.errors.length = 0;
  await world.host.call("POST", `sessions/${id}/kill`);
});

/** Returns a reverse proxy in front of the host. */
async function startProxy(host, { prefix = "", strip = false, tls = null }) {
  const serve = (request, response) => {
    const route = strip && request.url.startsWith(prefix) ? request.url.slice(prefix.length) || "/" : request.url;
    const target = new URL(host.url);
    const onward = http.request({ host: target.hostname, port: target.port, method: request.method, path: route, headers: { ...request.headers, "x-forwarded-for": "10.1.2.3" } }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    onward.on("error", () => response.destroy());
    request.pipe(onward);
    response.on("close", () => onward.destroy());
  };
  const server = tls ? https.createServer(tls, serve) : http.createServer(serve);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

for (const strip of [true, false]) {
  test(`page_works_behind_a_proxy_with_a_prefix_${strip ? "that_is_removed" : "that_is_kept"}`, async (world) => {
    const first = await Host.start();
    const proxy = await startProxy(first, { prefix: "/wharf", strip });
    const address = `http://127.0.0.1:${proxy.address().port}/wharf/`;
    fs.appendFileSync(path.join(first.folder, "config.toml"), "");
    fs.writeFileSync(path.join(first.folder, "config.toml"), `public_url = "${address}"\n${fs.readFileSync(path.join(first.folder, "config.toml"))}`);
    await first.kill();
    await first.run();
    const tab = await world.browser.open();
    await tab.go((await first.verb("web", "--phone", "--json")).replace(/.*"url":"([^"]*)".*/, "$1"));
    await tab.waitFor(".side-head");
    const cookies = (await tab.send("Network.getCookies")).cookies;
    assert.deepEqual(cookies.map((cookie) => [cookie.name, cookie.path, cookie.httpOnly, cookie.sameSite]), [["wharf_login", "/wharf/", true, "Strict"]]);
    const id = await first.session("demo", "echo through the proxy");
    await tab.click(".item a");
    await tab.waitText("through the proxy", ".row-message");
    assert.ok(id);
    assert.deepEqual(tab.errors, []);
    await tab.close();
    proxy.closeAllConnections();
    proxy.close();
    await first.stop();
  });
}

test("page_works_behind_a_proxy_with_tls", async (world) => {
  const first = await Host.start();
  const [key, cert] = ["key.pem", "cert.pem"].map((name) => path.join(first.folder, name));
  execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert], { stdio: "ignore" });
  const proxy = await startProxy(first, { tls: { key: fs.readFileSync(key), cert: fs.readFileSync(cert) } });
  const address = `https://localhost:${proxy.address().port}/`;
  fs.writeFileSync(path.join(first.folder, "config.toml"), `public_url = "${address}"\n${fs.readFileSync(path.join(first.folder, "config.toml"))}`);
  await first.kill();
  await first.run();
  const tab = await world.browser.open();
  await tab.send("Security.setIgnoreCertificateErrors", { ignore: true });
  await tab.go((await first.verb("web", "--phone", "--json")).replace(/.*"url":"([^"]*)".*/, "$1"));
  await tab.waitFor(".side-head");
  const [cookie] = (await tab.send("Network.getCookies")).cookies;
  assert.equal(cookie.secure, true);
  await first.session("demo", "echo over tls");
  await tab.click(".item a");
  await tab.waitText("over tls", ".row-message");
  await tab.close();
  proxy.closeAllConnections();
  proxy.close();
  await first.stop();
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
