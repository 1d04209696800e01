// A real provider (`oidc-provider` of npm) on loopback, whose answers can be changed on their way: what a hostile or broken provider would send.
//
//   const provider = await openProvider(`${url}/oidc/callback`, { …more of its configuration })
//   provider.issuer · provider.config({ …settings })   its entry in `[server.oidc]`
//   provider.people.ada = { groups: ["staff"] }        who there is, by login, which is the subject too
//   provider.tamper = (claims) => claims               changes the next ID tokens, which are signed with the provider's own key
//   provider.signWith = key                            or with another one; newKey() makes one
//   provider.rotate("ES256")                           from now on another key, of this algorithm, and the old one is gone
import { generateKeyPairSync } from "node:crypto";
import http from "node:http";
import path from "node:path";
import { pathToFileURL } from "node:url";

const modules = process.env.BATON_OIDC_MODULES;
const load = (file) => import(pathToFileURL(path.join(modules, "node_modules", file)).href);
const { Provider } = await load("oidc-provider/lib/index.js").then((module) => ({ Provider: module.default ?? module.Provider }));
const jose = await load("jose/dist/webapi/index.js");

export const CLIENT = { id: "baton", secret: "a secret: with + signs" };
let keys = 0;

const KINDS = {
  RS256: () => generateKeyPairSync("rsa", { modulusLength: 2048 }),
  PS256: () => generateKeyPairSync("rsa", { modulusLength: 2048 }),
  ES256: () => generateKeyPairSync("ec", { namedCurve: "P-256" }),
  ES384: () => generateKeyPairSync("ec", { namedCurve: "P-384" }),
  EdDSA: () => generateKeyPairSync("ed25519"),
  Ed25519: () => generateKeyPairSync("ed25519"),
};
export const ALGORITHMS = Object.keys(KINDS);

export function newKey(alg = "RS256") {
  return { ...KINDS[alg]().privateKey.export({ format: "jwk" }), kid: `key-${++keys}`, alg, use: "sig" };
}

export async function openProvider(redirect, more = {}) {
  const state = { people: {}, tamper: null, signWith: null, key: newKey(), tokens: 0 };
  const server = http.createServer();
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const origin = new URL(redirect).origin;

  const make = () => {
    const provider = new Provider(issuer, {
      ...more,
      clients: [{ client_id: CLIENT.id, client_secret: CLIENT.secret, redirect_uris: [redirect], post_logout_redirect_uris: [`${origin}/`], response_types: ["code"], grant_types: ["authorization_code"], id_token_signed_response_alg: state.key.alg }],
      enabledJWA: { idTokenSigningAlgValues: ALGORITHMS },
      jwks: { keys: [state.key] },
      cookies: { keys: ["only for tests"] },
      claims: { openid: ["sub"], profile: ["preferred_username"], email: ["email", "email_verified"], groups: ["groups"] },
      scopes: ["openid", "profile", "email", "groups", ...(more.scopes ?? [])],
      ttl: { AccessToken: 600, AuthorizationCode: 60, IdToken: 600, Interaction: 600, Session: 600, Grant: 600, ...more.ttl },
      async findAccount(_, id) {
        const person = state.people[id];
        return person && { accountId: id, claims: async () => ({ sub: id, preferred_username: person.name ?? id, groups: person.groups ?? [], ...person.claims }) };
      },
    });
    provider.on("server_error", (_, error) => console.error("provider:", error));
    return provider.callback();
  };
  let handler = null;
  const handle = () => (handler ??= make());

  server.on("request", (request, response) => {
    if (request.url !== "/token") return handle()(request, response);
    // The answer is held back until it was changed.
    const pieces = [];
    const { end } = response;
    response.write = (piece) => (pieces.push(Buffer.from(piece)), true);
    response.end = async (piece) => {
      if (piece) pieces.push(Buffer.from(piece));
      let body = Buffer.concat(pieces);
      try {
        body = Buffer.from(await changed(body));
      } catch (error) {
        console.error("provider:", error);
      }
      if (!response.headersSent) response.setHeader("content-length", body.length);
      end.call(response, body);
    };
    handle()(request, response);
  });

  /// A token with any claims, signed with the provider's key unless another is named.
  const sign = async (claims, key = state.key) => new jose.SignJWT(claims).setProtectedHeader({ alg: "RS256", kid: key.kid, typ: "at+jwt" }).sign(await jose.importJWK(key, "RS256"));

  async function changed(body) {
    const answer = JSON.parse(body.toString());
    state.tokens += 1;
    if (!answer.id_token || (!state.tamper && !state.signWith)) return body;
    const claims = (state.tamper ?? ((same) => same))(jose.decodeJwt(answer.id_token));
    const key = state.signWith ?? state.key;
    const signed = new jose.SignJWT(claims).setProtectedHeader({ alg: key.alg, kid: key.kid });
    return JSON.stringify({ ...answer, id_token: await signed.sign(await jose.importJWK(key, key.alg)) });
  }

  return Object.assign(state, {
    issuer,
    sign,
    rotate(alg) {
      state.key = newKey(alg);
      handler = null;
    },
    config: (more = "") =>
      `\n[server.oidc]\nissuer = "${issuer}"\nclient_id = "${CLIENT.id}"\nclient_secret = { env = "BATON_TEST_OIDC_SECRET" }\nscopes = ["openid", "profile", "email", "groups"]\ntitle = "the lab"\n${more}`,
    close: () => new Promise((done) => (server.closeAllConnections(), server.close(done))),
  });
}
