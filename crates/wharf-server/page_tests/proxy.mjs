// Reverse proxies in front of a host: with a prefix, with TLS, and one that holds streams back.
import fs from "node:fs";
import http from "node:http";
import https from "node:https";
import path from "node:path";
import { execFileSync } from "node:child_process";
import { Host } from "./host.mjs";

/** The proxies that have not been stopped. */
export const openProxies = new Set();

/**
 * Starts a proxy. `holdAfter` makes it pass on only so many bytes of a response until the response has ended.
 */
export async function startProxy(host, { prefix = "", strip = false, tls = null, holdAfter = null } = {}) {
  const serve = (request, response) => {
    const route = strip && request.url.startsWith(prefix) ? request.url.slice(prefix.length) || "/" : request.url;
    const target = new URL(host.url);
    if (proxy.status && request.url.endsWith(proxy.statusOf)) return void response.writeHead(proxy.status).end("a proxy says so");
    if (proxy.isStopped) return void waiting.push(() => serve(request, response));
    const onward = http.request({ host: target.hostname, port: target.port, method: request.method, path: route, headers: { ...request.headers, "x-forwarded-for": "10.1.2.3" } }, (answer) => {
      if (holdAfter === null || !proxy.holds) passOn(answer, response);
      else holdBack(answer, response, holdAfter);
    });
    onward.on("error", () => response.destroy());
    request.pipe(onward);
    response.on("close", () => onward.destroy());
  };
  /** Passes an answer on, unless the proxy stands still. */
  const passOn = (answer, response) => {
    if (proxy.isStopped || proxy.keepsAnswers) return void waiting.push(() => passOn(answer, response));
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
    answers.set(answer, response);
    response.on("close", () => answers.delete(answer));
  };
  const waiting = [];
  const answers = new Map();
  const server = tls ? https.createServer(tls, serve) : http.createServer(serve);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const proxy = {
    holds: true,
    isStopped: false,
    /** The status that it answers requests to addresses with this end with, instead of the host. */
    status: 0,
    statusOf: "",
    keepsAnswers: false,
    /** Stands still from now on, as a stopped process does; or passes requests on and keeps the answers. */
    freeze({ answersOnly = false } = {}) {
      Object.assign(proxy, { isStopped: !answersOnly, keepsAnswers: true });
      for (const [answer] of answers) answer.unpipe().pause();
    },
    thaw() {
      Object.assign(proxy, { isStopped: false, keepsAnswers: false });
      for (const [answer, response] of answers) answer.pipe(response);
      for (const go of waiting.splice(0)) go();
    },
    port: server.address().port,
    stop() {
      openProxies.delete(proxy);
      server.closeAllConnections();
      server.close();
    },
  };
  openProxies.add(proxy);
  return proxy;
}

/** Passes the first bytes of an answer on, and the others when it has ended. */
function holdBack(answer, response, holdAfter) {
  let [passed, held] = [0, []];
  const pass = (data) => {
    if (!response.headersSent) response.writeHead(answer.statusCode, answer.headers);
    response.write(data);
  };
  answer.on("data", (data) => {
    const now = data.subarray(0, Math.max(0, holdAfter - passed));
    passed += now.length;
    if (now.length) pass(now);
    held.push(data.subarray(now.length));
  });
  answer.on("end", () => {
    pass(Buffer.concat(held));
    response.end();
  });
}

/** Starts a host that is reached by a proxy, and knows its address by `public_url`. */
export async function startBehindProxy({ prefix = "", scheme = "http", ...options } = {}) {
  const host = await Host.start();
  const tls = scheme === "https" ? makeCertificate(host.folder) : null;
  const proxy = await startProxy(host, { prefix, tls, ...options });
  const address = `${scheme}://${tls ? "localhost" : "127.0.0.1"}:${proxy.port}${prefix}/`;
  const config = path.join(host.folder, "config.toml");
  fs.writeFileSync(config, `public_url = "${address}"\n${fs.readFileSync(config)}`);
  await host.kill();
  await host.run();
  const signIn = async () => JSON.parse(await host.verb("web", "--phone", "--json")).url;
  return { host, proxy, address, signIn };
}

function makeCertificate(folder) {
  const [key, cert] = ["key.pem", "cert.pem"].map((name) => path.join(folder, name));
  execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert], { stdio: "ignore" });
  return { key: fs.readFileSync(key), cert: fs.readFileSync(cert) };
}
