// Sign-in by an HTTP client: the whole way of redirects and forms, and everything that must be refused.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { freePort, open } from "../../browser/harness.mjs";
import { ALGORITHMS, CLIENT, newKey, openProvider } from "./provider.mjs";
import { Visitor } from "./visitor.mjs";

process.env.BATON_TEST_OIDC_SECRET = CLIENT.secret;
let harness, provider;

const GROUPS = `groups = { "lab-admins" = "operators" }
[groups.operators]
role = "operator"
[groups.readers]
role = "viewer"
[groups.staff]
runs_per_day = 50
`;

before(async () => {
  const port = await freePort();
  provider = await openProvider(`http://127.0.0.1:${port}/oidc/callback`);
  Object.assign(provider.people, { ada: { groups: ["staff"] }, bob: { groups: ["lab-admins"] }, vic: { groups: ["readers"] }, impostor: { name: "ada" }, machine: { name: "local" } });
  harness = await open({ port, docs: false, config: provider.config(GROUPS) });
});
after(async () => {
  await harness.close();
  await provider.close();
});

const status = (visitor) => visitor.visit(`${harness.url}/api/status`);

async function signedIn(login) {
  const visitor = new Visitor();
  const answer = await visitor.signIn(harness.url, login);
  assert.deepEqual([answer.status, answer.to], [303, `${harness.url}/`], answer.text);
  return visitor;
}

/// Nothing but the page with words, no session, and the server goes on.
async function refused(visitor, answer, words) {
  assert.match(answer.text, words);
  assert.ok([400, 403].includes(answer.status), String(answer.status));
  assert.ok(!answer.cookies.some((cookie) => cookie.startsWith("baton_session=") && !cookie.startsWith("baton_session=;")), "no session");
  assert.equal((await status(visitor)).status, 401);
}

test("a user signs in, is known by name and groups, and signs out", async () => {
  const visitor = new Visitor();
  assert.equal((await status(visitor)).status, 401);
  assert.deepEqual((await visitor.visit(`${harness.url}/api/session`)).json(), { provider: { title: "the lab", start: "/oidc/start" } });
  const answer = await visitor.signIn(harness.url, "ada");
  const session = answer.cookies.find((cookie) => cookie.startsWith("baton_session="));
  assert.match(session, /; HttpOnly; SameSite=Strict$/);
  assert.match(session, /Max-Age=43200;/);
  assert.ok(answer.cookies.some((cookie) => cookie.startsWith("baton_sign_in=;")), "the attempt is over");
  const known = (await status(visitor)).json();
  assert.deepEqual([known.user, known.role, known.allowance.runs_per_day], ["ada", "user", 50]);
  assert.equal((await visitor.visit(`${harness.url}/api/session`, { method: "DELETE" })).status, 204);
  assert.equal((await status(visitor)).status, 401);
  // The cookie of before is worth nothing either.
  const stale = await fetch(`${harness.url}/api/status`, { headers: { cookie: session.split(";")[0] } });
  assert.equal(stale.status, 401);
});

test("groups become roles", async () => {
  const [ada, bob, vic] = [await signedIn("ada"), await signedIn("bob"), await signedIn("vic")];
  const roles = [];
  for (const one of [ada, bob, vic]) roles.push((await status(one)).json().role);
  assert.deepEqual(roles, ["user", "operator", "viewer"]);
  assert.equal((await ada.visit(`${harness.url}/metrics`)).status, 403);
  assert.equal((await bob.visit(`${harness.url}/metrics`)).status, 200);
  const asked = await vic.visit(`${harness.url}/api/runs`, { method: "POST", json: { question: "May I?" } });
  assert.equal(asked.status, 403);
  // A new group counts from the next sign-in.
  provider.people.ada.groups = ["readers"];
  assert.equal((await status(await signedIn("ada"))).json().role, "viewer");
  provider.people.ada.groups = ["staff"];
  await signedIn("ada");
});

test("two users do not see one another", async () => {
  const [ada, bob] = [await signedIn("ada"), await signedIn("bob")];
  const put = await ada.visit(`${harness.url}/api/documents/secret.md`, { method: "PUT", headers: { "content-type": "application/octet-stream" }, json: "MARKER-OF-ADA" });
  assert.equal(put.status, 201, put.text);
  const started = (await ada.visit(`${harness.url}/api/runs`, { method: "POST", json: { flow: "direct", question: "MARKER-OF-ADA?" } })).json();
  assert.ok(started.run, JSON.stringify(started));
  for (const path of ["/api/threads", "/api/runs", "/api/documents", `/api/runs/${started.run}`, `/api/runs/${started.run}/answer`, `/api/threads/${started.thread}`]) {
    const seen = await bob.visit(harness.url + path);
    assert.ok(!seen.text.includes("MARKER-OF-ADA") && !seen.text.includes("secret.md"), `${path}: ${seen.text.slice(0, 300)}`);
  }
  assert.equal((await bob.visit(`${harness.url}/api/runs/${started.run}`)).status, 404);
});

test("a name belongs to the first subject, and nobody becomes the operator by a name", async () => {
  for (const [login, words] of [["impostor", /belongs to another user/], ["machine", /reserved/]]) {
    const visitor = new Visitor();
    await refused(visitor, await visitor.signIn(harness.url, login), words);
  }
});

test("ID tokens that are wrong are refused, each for its reason", async () => {
  const seconds = Math.floor(Date.now() / 1000);
  const wrong = {
    "the nonce of another attempt": (claims) => ({ ...claims, nonce: "of another" }),
    "no nonce": ({ nonce: _, ...claims }) => claims,
    "another audience": (claims) => ({ ...claims, aud: "another" }),
    "another issuer": (claims) => ({ ...claims, iss: "https://evil.example" }),
    "expired": (claims) => ({ ...claims, exp: seconds - 120, iat: seconds - 600 }),
    "of the future": (claims) => ({ ...claims, iat: seconds + 600, exp: seconds + 1200 }),
    "another client's": (claims) => ({ ...claims, azp: "another" }),
  };
  for (const [name, tamper] of Object.entries(wrong)) {
    provider.tamper = tamper;
    const visitor = new Visitor();
    const before = provider.tokens;
    await refused(visitor, await visitor.signIn(harness.url, "ada"), /could not be verified/);
    assert.equal(provider.tokens, before + 1, `${name}: the token was asked for`);
  }
  for (const words of [/nonce/, /another client \(aud\)/, /another issuer/, /expired/, /in the future/, /azp/]) assert.match(harness.log, words);
  // A small difference of clocks is none.
  provider.tamper = (claims) => ({ ...claims, exp: seconds - 20 });
  await signedIn("ada");
  provider.tamper = null;
});

test("an unknown key is refused and a rotated one is found", async () => {
  provider.signWith = newKey();
  const visitor = new Visitor();
  await refused(visitor, await visitor.signIn(harness.url, "ada"), /could not be verified/);
  // The name of the provider's key, and another key.
  provider.signWith = { ...newKey(), kid: provider.key.kid };
  await refused(visitor, await new Visitor().signIn(harness.url, "ada"), /could not be verified/);
  assert.match(harness.log, /a key that the provider does not publish/);
  assert.match(harness.log, /its signature is wrong/);
  provider.signWith = null;
  await signedIn("ada");
  // Not within two seconds of the last look at the keys.
  await new Promise((done) => setTimeout(done, 2_500));
  provider.rotate();
  await signedIn("ada");
});

test("every algorithm that providers use is verified, and a signature of another key is not", async () => {
  for (const algorithm of ALGORITHMS) {
    // Not within two seconds of the last look at the keys.
    await new Promise((done) => setTimeout(done, 2_500));
    provider.rotate(algorithm);
    await signedIn("ada");
    provider.signWith = { ...newKey(algorithm), kid: provider.key.kid };
    const visitor = new Visitor();
    await refused(visitor, await visitor.signIn(harness.url, "ada"), /could not be verified/);
    provider.signWith = null;
  }
  provider.rotate();
  await new Promise((done) => setTimeout(done, 2_500));
});

test("an answer without its attempt, of another browser, or with another state is refused", async () => {
  const ada = new Visitor();
  const callback = await ada.toCallback(harness.url, "ada");
  const stranger = new Visitor();
  await refused(stranger, await stranger.visit(callback), /not begun in this browser/);
  // With an attempt of their own.
  await stranger.visit(`${harness.url}/oidc/start`);
  await refused(stranger, await stranger.visit(callback), /another attempt to sign in \(state\)/);
  const elsewhere = new URL(callback);
  elsewhere.searchParams.set("iss", "https://evil.example");
  await refused(ada, await ada.visit(elsewhere.href), /another provider/);
  const again = new Visitor();
  const once = await again.toCallback(harness.url, "ada");
  const jar = [...again.jar];
  assert.equal((await again.visit(once)).status, 303);
  // The same answer a second time, with the cookie it had.
  const replay = new Visitor();
  replay.jar = jar;
  await refused(replay, await replay.visit(once), /could not be verified/);
});

test("the provider's refusal is shown as text, and nobody is sent to another server", async () => {
  const visitor = new Visitor();
  const begun = await visitor.visit(`${harness.url}/oidc/start?to=${encodeURIComponent("//evil.example/x")}`);
  const state = new URL(begun.to).searchParams.get("state");
  const page = await visitor.visit(`${harness.url}/oidc/callback?state=${state}&error=access_denied&error_description=${encodeURIComponent("<script>alert(1)</script>")}`);
  assert.equal(page.status, 403);
  assert.ok(page.text.includes("&lt;script&gt;") && !page.text.includes("<script>"), page.text);
  const url = new URL(begun.to);
  assert.deepEqual([url.searchParams.get("code_challenge_method"), url.searchParams.get("response_type")], ["S256", "code"]);
  assert.ok(url.searchParams.get("nonce").length >= 43 && url.searchParams.get("code_challenge").length === 43);
  const to = new Visitor();
  const start = await to.visit(`${harness.url}/oidc/start?to=${encodeURIComponent("//evil.example")}`);
  assert.ok(start.cookies[0].includes("SameSite=Lax") && start.cookies[0].includes("HttpOnly") && start.cookies[0].includes("Path=/oidc"), start.cookies[0]);
});

test("tokens go on beside it, and the entry of a user ends all sessions", async () => {
  const { token } = JSON.parse(harness.baton("tokens", "add", "ada", "--json"));
  const seen = await fetch(`${harness.url}/api/status`, { headers: { authorization: `Bearer ${token}` } });
  assert.equal((await seen.json()).user, "ada");
  const bob = await signedIn("bob");
  const rows = harness.baton("tokens", "list", "--json").trim().split("\n").map((line) => JSON.parse(line));
  const row = rows.find((row) => row.user === "bob");
  harness.baton("tokens", "remove", String(row.number));
  await new Promise((done) => setTimeout(done, 2_500));
  // After so many refused sign-ins from this address, further ones are slowed down.
  assert.ok([401, 429].includes((await status(bob)).status));
  assert.ok(!harness.log.includes(CLIENT.secret), "the secret is not in the log");
});
