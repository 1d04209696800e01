// Runs the peers and prints the results. Called by lab/peers/mcp, which installs what this needs.
import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { openBridge } from "./stdio_bridge.mjs";

const run = promisify(execFile);
const [home, bins, ...named] = process.argv.slice(2);
const here = import.meta.dirname;
const conformance = join(home, "npm/node_modules/@modelcontextprotocol/conformance/dist/index.js");
const everything = join(home, "npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
const python = join(home, "py/bin/python");
const bin = (name) => join(resolve(bins), name);
const revisions = ["2025-11-25", "2026-07-28"];
const parts = named.length ? named : ["conformance", "flows", "peers", "registry"];
const exceptions = JSON.parse(readFileSync(join(here, "exceptions.json"), "utf8"));

const table = [];
let failed = 0;
const children = [];

function row(what, good, all, words = "") {
  table.push(`${what.padEnd(46)} ${String(good).padStart(4)} of ${String(all).padEnd(4)} ${words}`);
  if (good !== all) failed += 1;
}

/** One thing that is so or is not. */
function check(what, isSo, words = "") {
  row(what, isSo ? 1 : 0, 1, isSo ? words : `NOT SO ${words}`);
}

process.on("exit", () => children.forEach((child) => child.kill("SIGKILL")));

/** Starts something that goes on, and waits for the first line it prints. */
function start(command, args, options = {}) {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
  children.push(child);
  child.stderr.on("data", () => {});
  return new Promise((done, fail) => {
    child.on("error", fail);
    child.on("exit", (code) => fail(new Error(`${command} ended with ${code}`)));
    let text = "";
    child.stdout.on("data", (data) => {
      text += data;
      if (text.includes("\n")) done({ child, line: text.split("\n")[0] });
    });
  });
}

async function until(what, isSo, seconds = 60) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    try {
      const value = await isSo();
      if (value) return value;
    } catch {
      // Not yet.
    }
    if (Date.now() > end) throw new Error(`never: ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

const json = async (address, options) => (await fetch(address, options)).json();
const post = (address, body) => json(address, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

/** All results below a folder, by scenario. */
function results(folder) {
  const found = [];
  const walk = (at) => {
    for (const name of readdirSync(at)) {
      const path = join(at, name);
      if (statSync(path).isDirectory()) walk(path);
      else if (name === "checks.json") found.push([at.slice(folder.length + 1), JSON.parse(readFileSync(path, "utf8"))]);
    }
  };
  walk(folder);
  return found;
}

/** The scenarios of a side at a revision. */
async function scenarios(side, revision) {
  const { stdout } = await run("node", [conformance, "list"]);
  const section = stdout.split(/\n(?=\S)/).find((part) => part.toLowerCase().startsWith(`${side} scenarios`)) ?? "";
  return [...section.matchAll(/^ {2}- (\S+) \[(.*)\]$/gm)].filter(([, , at]) => at.split(",").includes(revision)).map(([, name]) => name);
}

/** `name`: how the table and the exceptions call the one that is tested; `isMeant`: which scenarios are for it. */
async function suite(side, revision, args, { name = side, isMeant = () => true } = {}) {
  const out = join(home, "out", `${name}-${revision}`);
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const options = { maxBuffer: 1 << 28, env: { ...process.env } };
  // Clients one after the other: the suite itself starts all clients at once, and on a busy machine the SDK then gives up a question
  // that is about to be answered.
  const listed = await scenarios(side, revision);
  const wanted = listed.filter(isMeant);
  let log = "";
  for (const which of side === "client" || wanted.length < listed.length ? wanted.map((scenario) => ["--scenario", scenario]) : [["--suite", "all"]]) {
    const ran = await run("node", [conformance, side, ...args, ...which, "--spec-version", revision, "-o", out], options).catch((error) => error);
    log += `== ${which.join(" ")}\n${ran.stdout ?? ""}\n${ran.stderr ?? ""}\n`;
  }
  writeFileSync(join(out, "output.txt"), log);
  let [good, all, excepted, skipped, tried] = [0, 0, 0, 0, 0];
  const wrong = [];
  for (const [folder, checks] of results(out)) {
    tried += 1;
    for (const { id, status, errorMessage } of checks) {
      if (status === "SKIPPED") skipped += 1;
      if (!["SUCCESS", "FAILURE", "WARNING"].includes(status)) continue;
      const isFor = (exception) => exception.side === name && exception.revision === revision && folder.includes(exception.scenario) && exception.check === id;
      const isException = status !== "SUCCESS" && exceptions.some(isFor);
      if (isException) excepted += 1;
      all += 1;
      if (status === "SUCCESS" || isException) good += 1;
      else wrong.push(`    ${status} ${folder}: ${id}: ${errorMessage ?? ""}`);
    }
  }
  // A suite that found nothing to do has shown nothing.
  if (tried === 0 || tried !== wanted.length) wrong.push(`    ${tried} of ${wanted.length} scenarios have results; see ${join(out, "output.txt")}`);
  row(`conformance ${name} ${revision}`, tried === wanted.length ? good : -1, Math.max(all, 1), `checks in ${tried} scenarios, ${excepted} excepted, ${skipped} skipped`);
  table.push(...wrong);
}

async function conformanceSuites() {
  const { child, line } = await start(bin("mcp_server"), ["--port", "0"]);
  for (const revision of revisions) await suite("server", revision, ["--url", line]);
  child.kill();
  for (const revision of revisions) await suite("client", revision, ["--command", bin("mcp_client")]);
}

/** Scenarios that call tools, prompts and resources which only a server made for the suite has. */
const FIXTURES = /^(tools-call-|prompts-get-|resources-read-|resources-templates-read|elicitation-|json-schema-2020-12|input-required-result-|http-custom-header-server-validation|server-sse-polling)/;
/** Of optional parts of the protocol: the flows' server declares neither logging nor subscriptions. */
const OPTIONAL = /^(logging-set-level|resources-(un)?subscribe)$/;

/** What the messages themselves are asked, however they travel. */
const MESSAGES = /^(server-initialize|ping|completion-complete|tools-list|resources-list|prompts-list|sep-2164-resource-not-found|caching)$/;

/** The flows as tools: on `/mcp` of `baton serve` all scenarios that any server must pass, and over standard input and output those about messages. */
async function flowsSuites() {
  const folder = mkdtempSync(join(tmpdir(), "baton-mcp-"));
  const scripted = (name) => ["--script", join(here, "../openai.d/agent.script"), "--db", join(folder, name)];
  const { child, line } = await start(bin("baton"), [...scripted("serve.db"), "serve", "--port", "0", "--json"]);
  const url = `${JSON.parse(line).url}/mcp`;
  const isMeant = (scenario) => !FIXTURES.test(scenario) && !OPTIONAL.test(scenario);
  for (const revision of revisions) await suite("server", revision, ["--url", url], { name: "flows", isMeant });
  child.kill();
  const bridge = await openBridge(bin("baton"), [...scripted("stdio.db"), "mcp", "flows"]);
  for (const revision of revisions) await suite("server", revision, ["--url", bridge.url], { name: "flows-stdio", isMeant: (scenario) => MESSAGES.test(scenario) });
  bridge.close();
  rmSync(folder, { recursive: true, force: true });
}

/** `baton tools call`, as a person would. */
async function call(config, name, args) {
  const folder = mkdtempSync(join(tmpdir(), "baton-mcp-"));
  const file = join(folder, "mcp.json");
  writeFileSync(file, JSON.stringify({ mcpServers: config }));
  const options = { maxBuffer: 1 << 26 };
  try {
    const ran = await run(bin("baton"), ["--db", join(folder, "baton.db"), "tools", "call", name, JSON.stringify(args), "--mcp", file, "--json"], options);
    return { found: JSON.parse(ran.stdout) };
  } catch (error) {
    return { error: error.stderr ?? String(error) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function free() {
  const { createServer } = await import("node:net");
  return new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

async function peers() {
  const [nodePort, pythonPort] = [await free(), await free()];
  const node = spawn(process.execPath, [everything, "streamableHttp"], { env: { ...process.env, PORT: String(nodePort) }, stdio: "ignore" });
  const py = spawn(python, [join(here, "server.py"), String(pythonPort)], { stdio: "ignore" });
  children.push(node, py);
  const answers = (port) => () => fetch(`http://127.0.0.1:${port}/mcp`).then(() => true);
  await until("server-everything listens", answers(nodePort));
  await until("the python server listens", answers(pythonPort));
  const asNode = { stdio: { command: process.execPath, args: [everything, "stdio"] }, http: { url: `http://127.0.0.1:${nodePort}/mcp` } };
  const asPython = { stdio: { command: python, args: [join(here, "server.py"), "stdio"] }, http: { url: `http://127.0.0.1:${pythonPort}/mcp` } };
  for (const way of ["stdio", "http"]) {
    const echo = await call({ peer: asNode[way] }, "peer.echo", { message: "hello" });
    check(`server-everything over ${way}: echo`, echo.found?.text.includes("hello"), echo.error);
    const data = await call({ peer: asNode[way] }, "peer.get-structured-content", { location: "New York" });
    check(`server-everything over ${way}: structured`, typeof data.found?.data.temperature === "number", data.error);
    const wrong = await call({ peer: asNode[way] }, "peer.get-sum", { a: "x" });
    check(`server-everything over ${way}: bad arguments`, wrong.error?.includes("It takes"), JSON.stringify(wrong.found ?? ""));
    const sum = await call({ peer: asPython[way] }, "peer.add", { a: 2, b: 40 });
    check(`PyPI mcp server over ${way}: add`, sum.found?.data.result === 42, sum.error);
    const fails = await call({ peer: asPython[way] }, "peer.fail", { why: "the moon is full" });
    check(`PyPI mcp server over ${way}: its own error`, fails.error?.includes("the moon is full"), JSON.stringify(fails.found ?? ""));
  }
  node.kill();
  py.kill();
}

/** `baton registry` with third-party servers, servers of the lab and its own, driven by a third-party client. */
async function registry() {
  const folder = mkdtempSync(join(tmpdir(), "baton-mcp-"));
  const fixture = await start(bin("mcp_server"), ["--port", "0"]);
  const mcpServers = {
    everything: { command: process.execPath, args: [everything, "stdio"] },
    fixture: { url: fixture.line },
    local: { command: bin("mcp_server"), args: ["--stdio"] },
  };
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers }));
  const port = await free();
  const args = ["--db", join(folder, "baton.db"), "registry", "--port", String(port), "--mcp", join(folder, "mcp.json"), "--json"];
  const served = await start(bin("baton"), args);
  const base = `http://127.0.0.1:${port}`;
  const server = async (name) => (await json(`${base}/servers`)).servers.find((found) => found.name === name);
  const isUp = (name) => async () => (await server(name)).health === "up";
  for (const name of Object.keys(mcpServers)) await until(`${name} is up`, isUp(name));

  const listed = await json(`${base}/tools`);
  const wanted = [...Object.keys(mcpServers), "calc"];
  check("registry: tools over stdio, HTTP and built in", wanted.every((name) => listed.tools.some((tool) => tool.server === name)), `${listed.tools.length} tools`);
  const computed = (await post(`${base}/tools/calc.calculate/call`, { arguments: { expression: "6 * 7" } })).text;
  check("registry: a built-in tool is called", computed.includes("42"), computed);
  const times = [];
  for (let n = 0; n < 50; n += 1) {
    const began = performance.now();
    await json(`${base}/tools`);
    times.push(performance.now() - began);
  }
  times.sort((a, b) => a - b);
  const median = times[25];
  check("registry: list from cache, median under 5 ms", median < 5, `${median.toFixed(2)} ms, slowest ${times[49].toFixed(2)} ms`);
  const began = performance.now();
  const hits = await json(`${base}/search?q=${encodeURIComponent("add two numbers")}&size=5`);
  const took = performance.now() - began;
  check("registry: discovery under 100 ms", took < 100, `${took.toFixed(2)} ms, first ${hits.tools[0]?.name}`);

  const pid = (await post(`${base}/tools/local.pid/call`, { arguments: {} })).text;
  process.kill(Number(pid), "SIGKILL");
  await until("the killed server shows unhealthy", async () => (await server("local")).health !== "up");
  await until("the killed server is back", isUp("local"));
  const again = (await post(`${base}/tools/local.pid/call`, { arguments: {} })).text;
  check("registry: a killed server shows and comes back", again !== pid, `process ${pid}, then ${again}`);

  const driven = JSON.parse((await run(python, [join(here, "client.py"), `${base}/mcp`])).stdout);
  for (const mode of ["legacy", "auto"]) {
    const { said, bad_is_error: isError, bad_words: words, tools, version } = driven[mode];
    check(`registry: PyPI mcp client (${mode})`, said === "from python" && isError && words.includes("It takes") && tools.length === listed.tools.length, version);
  }
  const off = `${base}/tools/fixture.echo`;
  await post(`${off}/disable`, {});
  const without = await json(`${base}/tools?enabled=true`);
  check("registry: a tool is switched off", !without.tools.some((tool) => tool.name === "fixture.echo"));

  const gone = new Promise((done) => served.child.on("exit", done));
  served.child.kill("SIGTERM");
  await gone;
  const isAlive = () => {
    try {
      process.kill(Number(again), 0);
      return true;
    } catch {
      return false;
    }
  };
  check("registry: no child is left behind", !isAlive());
  fixture.child.kill();
  rmSync(folder, { recursive: true, force: true });
}

for (const part of parts) {
  try {
    await { conformance: conformanceSuites, flows: flowsSuites, peers, registry }[part]();
  } catch (error) {
    failed += 1;
    table.push(`${part}: ${error.stack ?? error}`);
  }
}
console.log(table.join("\n"));
if (exceptions.length) console.log(`\nexceptions:\n${exceptions.map((e) => `  ${e.side} ${e.revision} ${e.scenario} ${e.check}: ${e.why}`).join("\n")}`);
console.log(failed ? `\n${failed} rows are not as they should be` : "\nall well");
process.exit(failed ? 1 : 0);
