// A tool that may change something: what the page shows of the call, how far an answer reaches, and how a permission is revoked.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { clean } from "./axe.mjs";
import { ask, choose, get, open, picture } from "./harness.mjs";

const SCRIPT = `
when tool registry.tools reply {"text": "", "data": {"tools": [{"name": "tickets.close", "server": "tickets", "description": "Closes a ticket", "schema": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}}]}, "spans": []}
when model plan reply {"reasoning": "because", "tasks": [{"task_number": 1, "tool_name": "tickets.close", "tool_arguments": {"id": 7}, "description": "Close it"}]}
when tool tickets.close reply {"text": "Ticket 7 is closed.", "data": null, "spans": []} once asks
when model synthesis text~"said no" reply {"reasoning": "", "response_content": "Ticket 7 was not closed."}
when model synthesis reply {"reasoning": "", "response_content": "Ticket 7 is closed."}
`;

let harness;
before(async () => (harness = await open({ script: SCRIPT })));
after(() => harness.close());

async function asked() {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await ask(page, "Close ticket 7");
  return page;
}

test("a call that needs permission is shown with its tool, server, arguments and every answer", async () => {
  const page = await asked();
  const card = page.locator(".asking");
  await card.getByRole("button", { name: "Once" }).waitFor();
  const text = await card.textContent();
  for (const words of ["tickets.close", '{"id":7}', "Server", "Origin of the arguments", "Reason for asking"]) assert.ok(text.includes(words), `${words} in ${text}`);
  const buttons = await card.getByRole("button").allTextContents();
  assert.deepEqual(buttons, ["Once", "This conversation", "Always this tool", "Always this server", "No"]);
  await clean(page, "14-permission");
  await picture(page, "14-permission");
  await card.getByRole("button", { name: "No", exact: true }).click();
  await page.locator(".answer .prose", { hasText: "Ticket 7 was not closed." }).waitFor();
  assert.deepEqual((await get(harness, "/api/permissions")).permissions, []);
});

test("a tool that is always allowed is not asked about until that is revoked in the settings", async () => {
  const page = await asked();
  await page.locator(".asking").getByRole("button", { name: "Always this tool" }).click();
  await page.locator(".answer", { hasText: "Ticket 7 is closed" }).first().waitFor();
  const again = await asked();
  await again.locator(".answer", { hasText: "Ticket 7 is closed" }).first().waitFor();
  const settings = await harness.page({ path: "/#/settings" });
  await settings.getByText("this tool, always").waitFor();
  await clean(settings, "15-permissions");
  await picture(settings, "15-permissions");
  await settings.getByRole("button", { name: "Revoke tickets.close" }).click();
  await settings.getByText("None. Before a tool that may change something").waitFor();
  assert.deepEqual((await get(harness, "/api/permissions")).permissions, []);
  const third = await asked();
  await third.locator(".asking").getByRole("button", { name: "Once" }).waitFor();
});

test("a permission whose tool has changed is marked as asked again, with the reason", async () => {
  const page = await harness.page();
  const row = (id, name, state, changed) => ({ id, scope: "tool", name, created_ms: 1, state, changed });
  const permissions = [row(1, "notes.add", "changed", ["description", "server"]), row(2, "notes.old", "unbound"), row(3, "notes.read", "valid")];
  await page.route("**/api/permissions", (route) => route.fulfill({ json: { permissions } }));
  await page.evaluate(() => (location.hash = "#/settings"));
  await page.getByText("You will be asked again, because this changed: the description, how the server is reached.").waitFor();
  await page.getByText("You will be asked again: this permission was given before definitions of tools were recorded.").waitFor();
  assert.equal(await page.getByText("You will be asked again").count(), 2);
  await clean(page, "15-permissions-changed");
});
