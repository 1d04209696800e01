// The page in Chromium: the button, the provider's forms, the way back, and signing out here and there.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { freePort, open, picture } from "../../browser/harness.mjs";
import { CLIENT, openProvider } from "./provider.mjs";

process.env.BATON_TEST_OIDC_SECRET = CLIENT.secret;
let harness, provider;
before(async () => {
  const port = await freePort();
  provider = await openProvider(`http://127.0.0.1:${port}/oidc/callback`);
  Object.assign(provider.people, { ada: {} });
  harness = await open({ port, docs: false, token: "the operator's own", config: provider.config("end_provider_session = true\n") });
});
after(async () => {
  await harness.close();
  await provider.close();
});

test("ada signs in with the button, finds her place again, and signs out of both", async () => {
  const page = await harness.page({ path: "/#/settings" });
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await picture(page, "20-sign-in-with-a-provider");
  await page.getByRole("link", { name: "Sign in with the lab" }).click();
  await page.locator("input[name='login']").fill("ada");
  await page.locator("input[name='password']").fill("any");
  await page.locator("button[type='submit']").click();
  await page.getByRole("button", { name: /continue/i }).click();
  await page.waitForURL(`${harness.url}/#/settings`);
  await page.getByText("as ada").waitFor();
  assert.equal(await page.evaluate(() => document.cookie), "", "nothing for scripts to read");
  await page.getByRole("button", { name: "Sign out" }).click();
  // The provider asks whether its own session is to end.
  await page.getByRole("button", { name: /yes/i }).click();
  await page.waitForURL(`${harness.url}/**`);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.getByRole("link", { name: "Sign in with the lab" }).click();
  await page.locator("input[name='login']").waitFor();
  // The provider's own pages load fonts from another server.
  page.troubles = page.troubles.filter((trouble) => !/ERR_NAME_NOT_RESOLVED|ERR_INTERNET_DISCONNECTED|ERR_CONNECTION_CLOSED/.test(trouble));
});
