// `/mcp` of `baton serve` as a protected resource: an MCP host of the official Python SDK finds the provider, registers, signs a person in and comes back with an
// access token; tokens that are not for this server are refused.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import readline from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { freePort, open } from "../../browser/harness.mjs";
import { CLIENT, newKey, openProvider } from "../oidc.d/provider.mjs";
import { Visitor } from "../oidc.d/visitor.mjs";

process.env.BATON_TEST_OIDC_SECRET = CLIENT.secret;
const HOST = fileURLToPath(new URL("host.py", import.meta.url));
/// Short, so that a refresh is seen.
const LIFETIME_S = 6;
let harness, provider, mcp;

before(async () => {
  const port = await freePort();
  const base = `http://127.0.0.1:${port}`;
  mcp = `${base}/mcp`;
  provider = await openProvider(`${base}/oidc/callback`, {
    scopes: ["baton"],
    ttl: { AccessToken: LIFETIME_S, RefreshToken: 600 },
    features: {
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource) => ({ scope: "baton", audience: resource, accessTokenFormat: "jwt", jwt: { sign: { alg: "RS256" } } }),
      },
    },
    extraTokenClaims: (_, token) => (token.accountId === "nameless" ? {} : { preferred_username: token.accountId, groups: provider.people[token.accountId].groups ?? [] }),
    issueRefreshToken: (_, client) => client.grantTypeAllowed("refresh_token"),
  });
  Object.assign(provider.people, { ada: { groups: ["staff"] }, nameless: {} });
  harness = await open({ port, docs: false, config: provider.config(`mcp_scopes = ["baton"]\nclock_skew_seconds = 0\n`) });
});
after(async () => {
  await harness?.close();
  await provider?.close();
});

/// An official client, signed in by a user.
async function host(login, pauseS = 0) {
  const redirect = `http://127.0.0.1:${await freePort()}/callback`;
  const going = spawn(process.env.BATON_MCP_PYTHON, [HOST, mcp, redirect, String(pauseS)], { stdio: ["pipe", "pipe", "pipe"] });
  let trouble = "";
  going.stderr.on("data", (piece) => (trouble += piece));
  let last = "";
  for await (const line of readline.createInterface({ input: going.stdout })) {
    last = line;
    if (line.startsWith("http")) going.stdin.write(`${await new Visitor().through(line, redirect, login)}\n`);
  }
  const code = going.exitCode ?? (await new Promise((done) => going.once("exit", done)));
  return { code, last, trouble };
}

const listTools = (token, to = mcp) =>
  fetch(to, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...(token ? { authorization: `Bearer ${token}` } : {}) },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } } }),
  });

test("a host without a token learns where to get one", async () => {
  const refused = await listTools(null);
  assert.equal(refused.status, 401);
  assert.equal(refused.headers.get("www-authenticate"), `Bearer resource_metadata="${harness.url}/.well-known/oauth-protected-resource/mcp"`);
  assert.equal((await refused.json()).jsonrpc, "2.0");
  for (const where of ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"]) {
    const described = await (await fetch(harness.url + where)).json();
    assert.deepEqual(described, { resource: mcp, resource_name: "Baton", authorization_servers: [provider.issuer], bearer_methods_supported: ["header"], scopes_supported: ["baton"] });
  }
});

test("the official client registers, signs a person in, calls a flow and refreshes its token", async () => {
  const { code, last, trouble } = await host("ada", LIFETIME_S + 1);
  assert.equal(code, 0, trouble);
  const report = JSON.parse(last);
  assert.ok(report.tools.includes("direct") && report.tools.includes("answer_question"), last);
  assert.equal(report.is_error, false, last);
  assert.deepEqual([report.asked, report.issued], [1, 2], "asked once, and one refresh");
  // The run is ada's, as she sees when she signs in at the page.
  const ada = new Visitor();
  assert.equal((await ada.signIn(harness.url, "ada")).status, 303);
  const { threads } = (await ada.visit(`${harness.url}/api/threads`)).json();
  assert.ok(JSON.stringify(threads).includes("What does OAuth protect here?"), JSON.stringify(threads));
});

test("only tokens of the provider for this server count, and only at /mcp", async () => {
  const now = Math.floor(Date.now() / 1000);
  const good = { iss: provider.issuer, sub: "ada", aud: mcp, iat: now, exp: now + 60, preferred_username: "ada", groups: ["staff"] };
  const status = async (claims, key) => (await listTools(await provider.sign(claims, key))).status;
  assert.equal(await status(good), 200);
  assert.equal(await status({ ...good, aud: [harness.url, "others"] }), 200);
  assert.equal((await listTools(await provider.sign(good), `${harness.url}/api/status`)).status, 401, "not for our own API");
  const late = await listTools(await provider.sign({ ...good, exp: now - 5 }));
  assert.equal(late.status, 401);
  assert.match(late.headers.get("www-authenticate"), /error="invalid_token"/);
  for (const [claims, key] of [
    [{ ...good, aud: "https://evil.example/mcp" }],
    [{ ...good, aud: CLIENT.id }],
    [{ ...good, aud: undefined }],
    [{ ...good, iss: "https://evil.example" }],
    [good, newKey()],
  ]) {
    const refused = await status(claims, key);
    assert.ok([401, 429].includes(refused), `${refused} for ${JSON.stringify(claims)}`);
  }
  assert.equal(await status({ ...good, sub: "other" }), 403, "another subject with ada's name");
  assert.equal(await status({ ...good, sub: "nameless", preferred_username: undefined }), 403, "nobody knows who that is");
});

test("a person whose token has no name is known after a sign-in at the page", async () => {
  assert.equal((await new Visitor().signIn(harness.url, "nameless")).status, 303);
  const { code, last, trouble } = await host("nameless");
  assert.equal(code, 0, trouble);
  assert.equal(JSON.parse(last).is_error, false, last);
});

test("Baton's own tokens still work", async () => {
  const token = harness.baton("tokens", "add", "bob").match(/baton_[0-9a-f]{64}/)[0];
  assert.equal((await listTools(token)).status, 200);
});
