// The page's button for servers that want OAuth: the browser goes to the authorization server of the official Python SDK, the person agrees, and the tools are there.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { freePort, open, pause } from "../../browser/harness.mjs";

const SERVER = fileURLToPath(new URL("server.py", import.meta.url));
let harness, server, folder;

before(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "baton-oauth-page-"));
  const port = await freePort();
  server = spawn(process.env.BATON_MCP_PYTHON, [SERVER, String(port), "600"], { stdio: "ignore" });
  const mcp = path.join(folder, "mcp.json");
  fs.writeFileSync(mcp, JSON.stringify({ mcpServers: { notes: { url: `http://127.0.0.1:${port}/mcp` } } }));
  for (let tries = 0; !(await fetch(`http://127.0.0.1:${port}/mcp`).catch(() => null)) && tries < 300; tries += 1) await pause(100);
  harness = await open({ docs: false, config: `[tools]\nmcp = [${JSON.stringify(mcp)}]\nregistry = "off"\n` });
});
after(async () => {
  await harness?.close();
  server?.kill();
  fs.rmSync(folder, { recursive: true, force: true });
});

test("a person signs in at a tool server, and out again", async () => {
  const page = await harness.page({ path: "/#/tools" });
  const notes = page.getByRole("region", { name: "Server notes" });
  await notes.getByText("baton tools login notes").waitFor();
  await notes.getByRole("button", { name: "Sign in notes" }).click();
  await page.getByText("May Baton use your notes?").waitFor();
  await page.getByRole("button", { name: "Agree" }).click();
  await page.waitForURL(`${harness.url}/#/tools`);
  await notes.locator("strong", { hasText: "notes.whoami" }).waitFor();
  assert.equal(await notes.getByRole("button", { name: "Sign in notes" }).count(), 0);
  await notes.getByRole("button", { name: "Sign out notes" }).click();
  await notes.getByRole("button", { name: "Sign in notes" }).waitFor();
});
