// A browser without a window: cookies by host and path, and redirects one at a time.
import assert from "node:assert/strict";

export class Visitor {
  jar = [];

  async visit(url, { method = "GET", form = null, json = null, headers = {} } = {}) {
    const target = new URL(url);
    const cookies = this.jar.filter((one) => one.host === target.host && target.pathname.startsWith(one.path)).map((one) => `${one.name}=${one.value}`);
    const body = form ? new URLSearchParams(form) : json ? JSON.stringify(json) : undefined;
    const type = form ? { "content-type": "application/x-www-form-urlencoded" } : json ? { "content-type": "application/json" } : {};
    const response = await fetch(url, { method, body, redirect: "manual", headers: { ...type, ...(cookies.length ? { cookie: cookies.join("; ") } : {}), ...headers } });
    for (const line of response.headers.getSetCookie()) this.keep(target, line);
    const text = await response.text();
    const to = response.headers.get("location");
    return { status: response.status, text, url, to: to && new URL(to, url).href, cookies: response.headers.getSetCookie(), json: () => JSON.parse(text) };
  }

  keep(target, line) {
    const [pair, ...attributes] = line.split(/;\s*/);
    const at = pair.indexOf("=");
    const named = Object.fromEntries(attributes.map((one) => one.split("=")).map(([name, value]) => [name.toLowerCase(), value ?? true]));
    const one = { host: target.host, path: named.path ?? "/", name: pair.slice(0, at), value: pair.slice(at + 1) };
    this.jar = this.jar.filter((old) => !(old.host === one.host && old.path === one.path && old.name === one.name));
    const isGone = named["max-age"] === "0" || (named.expires && new Date(named.expires) < new Date());
    if (!isGone) this.jar.push(one);
  }

  /// Follows redirects and fills in the provider's forms, until this server's callback would be visited.
  toCallback(baton, login) {
    return this.through(`${baton}/oidc/start`, `${baton}/oidc/callback`, login);
  }

  /// The same from any address to where an address begins with `end`.
  async through(start, end, login) {
    let at = await this.visit(start);
    for (let steps = 0; steps < 20; steps += 1) {
      if (at.to?.startsWith(end)) return at.to;
      if (at.to) {
        at = await this.visit(at.to);
        continue;
      }
      const action = at.text.match(/<form[^>]*action="([^"]+)"/)?.[1];
      assert.ok(action, `no form and no redirect at ${at.url}: ${at.status} ${at.text.slice(0, 300)}`);
      const form = at.text.includes('value="login"') ? { prompt: "login", login, password: "any" } : { prompt: "consent" };
      at = await this.visit(new URL(action, at.url).href, { method: "POST", form });
    }
    throw new Error("too many redirects");
  }

  /// The whole way. The answer of the callback.
  async signIn(baton, login) {
    return this.visit(await this.toCallback(baton, login));
  }
}
