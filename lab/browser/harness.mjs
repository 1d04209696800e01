// What a browser test runs on: a real `baton serve` with its own database and folders, a scripted model beside it, and a real Chromium.
//
//   const harness = await open({ script })     script: all effects are scripted, for tests with thousands of runs; token: requests need it;
//                                              config: more of baton.toml, or all of it as a function of the model's address; port: its port;
//                                              isPacked: the page that is in the binary, not the folder
//   harness.page(options)                      a page; every error on its console fails the test
//   harness.kill() · harness.start()           kills the server · starts it again on the same port and database
//   harness.close()
import { execFileSync, spawn } from "node:child_process";
import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { playModel } from "./model.mjs";

export const here = path.dirname(fileURLToPath(import.meta.url));
export const root = path.resolve(here, "../..");
export const web = path.join(root, "web");
const modules = process.env.BATON_BROWSER_MODULES ?? path.join(root, "target/peers/browser");
export const require = createRequire(path.join(modules, "package.json"));
const { chromium } = require("playwright-core");

const BATON = process.env.BATON_BIN ?? path.join(root, "target/debug/baton");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const PICTURES = path.join(root, "target/screenshots");
/// How many times slower the browser's processor is to seem, to find what depends on the speed of a machine.
const SLOWER = Number(process.env.BATON_BROWSER_SLOW ?? 1);
/// A debug build on a busy machine starts slowly.
const START_MS_MAX = 60_000;
export const WAIT_MS = Number(process.env.BATON_WAIT_MS ?? 60_000);

export async function open({ script = null, docs = true, token = null, config = "", port: wantedPort = null, isPacked = false } = {}) {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), "baton-browser-"));
  const model = script ? null : await playModel();
  const port = wantedPort ?? (await freePort());
  const harness = { home, port, model, url: `http://127.0.0.1:${port}`, server: null, log: "", pages: [] };
  const files = { config: path.join(home, "baton.toml"), db: path.join(home, "baton.db"), script: path.join(home, "world.script"), docs: path.join(home, "docs") };
  fs.cpSync(path.join(here, "documents"), files.docs, { recursive: true });
  if (script) fs.writeFileSync(files.script, script);
  else if (typeof config === "function") fs.writeFileSync(files.config, config(model.url));
  else fs.writeFileSync(files.config, `model = "compat/lab/actor"\n\n[endpoints.lab]\nurl = "${model.url}"\n\n[models."compat/lab/actor"]\nusd_per_million_in = 0.1\nusd_per_million_out = 0.4\n\n[embedded]\npull = false\n${config}`);
  const played = script ? ["--script", files.script] : ["--config", files.config, "--no-pull", ...(docs ? ["--docs", files.docs] : [])];

  harness.start = async () => {
    const env = { ...process.env, BATON_WEB: web, BATON_NO_PULL: "1", XDG_DATA_HOME: home, XDG_CONFIG_HOME: home, XDG_CACHE_HOME: home, HOME: home };
    // What is in the binary instead of what is in the folder.
    if (isPacked || process.env.BATON_PACKED) env.BATON_WEB = "packed";
    for (const name of Object.keys(env)) if (/_API_KEY$|^OLLAMA_HOST$|^BATON_(DB|CONFIG|TOKEN)$/.test(name)) delete env[name];
    const server = spawn(BATON, ["serve", "--port", String(port), "--db", files.db, ...played, ...(token ? ["--token", token] : [])], { env, stdio: ["ignore", "pipe", "pipe"] });
    harness.server = server;
    for (const stream of [server.stdout, server.stderr]) stream.on("data", (piece) => (harness.log += piece));
    const until = Date.now() + START_MS_MAX;
    while (!(await isReady(harness.url))) {
      assert.equal(server.exitCode, null, `baton serve ended:\n${harness.log}`);
      assert.ok(Date.now() < until, `baton serve is not ready:\n${harness.log}`);
      await pause(50);
    }
  };
  /// The program beside its server, on the same database.
  harness.baton = (...args) => execFileSync(BATON, ["--db", files.db, ...args], { env: { ...process.env, HOME: home }, encoding: "utf8" });
  harness.kill = () => new Promise((done) => (harness.server.once("exit", done), harness.server.kill("SIGKILL")));

  await harness.start();
  harness.browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });

  harness.page = async ({ path: hash = "/", ...options } = {}) => {
    const context = await harness.browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(WAIT_MS);
    if (SLOWER > 1) await (await context.newCDPSession(page)).send("Emulation.setCPUThrottlingRate", { rate: SLOWER });
    page.troubles = [];
    page.mayLose = false;
    page.on("pageerror", (error) => {
      // A module that cannot be loaded while the server is dead on purpose has no stack.
      if (page.mayLose && !error.stack) return;
      page.troubles.push(`error: ${error.stack}`);
    });
    page.on("console", (message) => {
      if (!["error", "warning"].includes(message.type())) return;
      // While the server is stopped on purpose, the browser logs errors.
      if (page.mayLose && /ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE/.test(message.text())) return;
      // Asking for an answer that is not there yet, or for something another tab deleted, is part of the API.
      if (/status of (409|404)/.test(message.text())) return;
      // Where nobody comes in without a token, being asked for one is part of it.
      if (token && /status of 401/.test(message.text())) return;
      page.troubles.push(`${message.type()}: ${message.text()}`);
    });
    page.on("response", (response) => response.status() >= 500 && page.troubles.push(`${response.status()} ${response.url()}`));
    await page.goto(`${harness.url}${hash}`);
    harness.pages.push(page);
    return page;
  };

  harness.close = async () => {
    const troubles = harness.pages.flatMap((page) => page.troubles);
    await harness.browser.close();
    await harness.kill();
    model?.close();
    fs.rmSync(home, { recursive: true, force: true, maxRetries: 5 });
    assert.deepEqual(troubles, [], "the console is quiet");
  };
  return harness;
}

/// What people look at later.
export async function picture(page, name) {
  fs.mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: path.join(PICTURES, `${name}.png`) });
}

export async function ask(page, question) {
  await page.getByLabel("Your question").fill(question);
  await page.keyboard.press("Enter");
}

export async function choose(page, label, value) {
  await page.locator(".composer").getByLabel(label, { exact: true }).selectOption(value);
}

export async function post(harness, where, body, method = "POST") {
  const response = await fetch(harness.url + where, { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const text = await response.text();
  return { status: response.status, body: text ? JSON.parse(text) : null };
}

/// All events of a run that is over.
export async function events(harness, run) {
  const text = await (await fetch(`${harness.url}/api/runs/${run}/events`)).text();
  return text.split("\n").filter((line) => line.startsWith("data: ")).map((line) => JSON.parse(line.slice(6)));
}

export const get = async (harness, where) => (await fetch(harness.url + where)).json();

/// Tries a check until it holds: the page shows a change a moment after it happened, and how long that takes depends on the machine.
export async function eventually(check, ms = WAIT_MS / 2) {
  const until = Date.now() + ms;
  for (;;) {
    try {
      return await check();
    } catch (wrong) {
      if (wrong.code !== "ERR_ASSERTION" || Date.now() > until) throw wrong;
      await pause(50);
    }
  }
}

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function isReady(url) {
  try {
    return (await fetch(`${url}/readyz`)).ok;
  } catch (_) {
    return false;
  }
}

export function freePort() {
  return new Promise((done) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}
