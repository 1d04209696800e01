// Changes of a plan by a person, without a browser: what was moved, added and left out, and what is sent back.
import assert from "node:assert/strict";
import test from "node:test";
import { moved, needs, numbered, stepFields, stepOf } from "../../web/js/model/plan_edit.js";

const LIST = { name: "steps", known: ["description", "tool", "arguments"], tools: [], steps: [] };
const step = (at, tool, args) => ({ key: `s${at}`, list: "steps", at, isOut: false, step: { tool, arguments: args }, fields: stepFields({ tool, arguments: args }) });
const sent = (steps, list = LIST) => numbered(steps.filter((one) => !one.isOut)).map((one) => stepOf(one, list));

test("a step that was moved takes its references along", () => {
  const steps = [step(0, "a", { q: "x" }), step(1, "b", { q: "y" }), step(2, "c", { q: "of {{2}} and {{ 1.url }}" })];
  const swapped = moved(steps, "s0", 1);
  assert.deepEqual(swapped.map((one) => one.key), ["s1", "s0", "s2"]);
  assert.deepEqual(needs(swapped), []);
  assert.deepEqual(sent(swapped).map((one) => one.arguments.q), ["y", "x", "of {{1}} and {{ 2.url }}"]);
  assert.equal(moved(steps, "s0", -1), steps, "the first one goes no further up");
});

test("a step cannot use what comes after it or what was left out", () => {
  const steps = [step(0, "a", { q: "x" }), step(1, "b", { q: "of {{1}}" })];
  assert.match(needs(moved(steps, "s1", -1))[0], /Step 1 uses what step 2 finds, so it must come after it/);
  assert.match(needs([{ ...steps[0], isOut: true }, steps[1]])[0], /Keep that one/);
});

test("steps with numbers of their own keep them, and new ones get the next", () => {
  const list = { name: "tasks", known: ["task_number", "tool_name", "tool_arguments", "description"], tools: ["a"], steps: [] };
  const task = { task_number: 3, tool_name: "a", tool_arguments: { q: "x" }, status: "pending" };
  const old = { key: "t", list: "tasks", at: 0, isOut: false, step: task, fields: stepFields(task) };
  const field = (name, text, isJson = false) => ({ name, text, was: null, isJson });
  const added = { key: "n", list: "tasks", at: null, isOut: false, step: null, fields: [field("tool_name", "a"), field("tool_arguments", '{"q": "{{3}}"}', true), { ...field("description", ""), isOptional: true }] };
  assert.deepEqual(sent([old, added], list), [
    { task_number: 3, tool_name: "a", tool_arguments: { q: "x" } },
    { task_number: 4, tool_name: "a", tool_arguments: { q: "{{3}}" } },
  ]);
});

test("sections and plain steps are sent as they are read", () => {
  const section = { heading: "Cost", question: "What does it cost?" };
  const one = { key: "s", list: "sections", at: 0, isOut: false, step: section, fields: stepFields(section) };
  const list = { name: "sections", known: ["heading", "question"], tools: [], steps: [] };
  assert.deepEqual(sent([{ ...one, fields: one.fields.map((field) => (field.name === "heading" ? { ...field, text: "Price" } : field)) }], list), [{ heading: "Price", question: "What does it cost?" }]);
  const words = { key: "w", list: "expert_steps", at: 0, isOut: false, step: "Think", fields: stepFields("Think") };
  assert.deepEqual(sent([words], { name: "expert_steps", known: [], tools: [], steps: [] }), ["Think"]);
});
