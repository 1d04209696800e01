// What the page makes of text and events, without a browser: each test is an input and what comes out.
import assert from "node:assert/strict";
import test from "node:test";
import { blocks } from "../../web/js/model/markdown.js";
import { located } from "../../web/js/model/marks.js";
import { sentences } from "../../web/js/model/draft.js";
import { applyDelta, applyEvent, keyOf, newFamily, speaker } from "../../web/js/model/family.js";
import { layers } from "../../web/js/model/layers.js";
import { carriedOut, needs, planned, proposal } from "../../web/js/model/plan.js";
import { workGraph } from "../../web/js/model/work.js";
import { bars } from "../../web/js/model/timeline.js";
import { branchesOf, choicesTo, pathOf } from "../../web/js/model/branches.js";
import { highlighted } from "../../web/js/model/highlight.js";
import { mathOf } from "../../web/js/model/math.js";
import { duration, limitsInWords, webAddress, withoutMarks } from "../../web/js/model/text.js";

/// Blocks as short words: `p:`, `h2:`, `li(…)`; runs as text with their marks.
function told_(list) {
  const run = (one) => `${one.strong ? "**" : ""}${one.em ? "_" : ""}${one.code ? "`" : ""}${one.href ? `<${one.href}>` : ""}${one.cite ? `cite ${one.cite.join("+")}` : one.text}`;
  const words = (groups) => groups.map((group) => (group.sentence === null ? "" : `{${group.sentence}}`) + group.runs.map(run).join("|")).join("/");
  const one = (block) => {
    switch (block.kind) {
      case "paragraph": return `p:${words(block.words)}`;
      case "heading": return `h${block.level}:${words(block.words)}`;
      case "list": return `${block.isOrdered ? "ol" : "ul"}(${block.items.map((item) => told_(item)).join("; ")})`;
      case "code": return `code:${block.text}`;
      case "quote": return `quote(${told_(block.blocks)})`;
      case "table": return `table(${[block.head, ...block.rows].map((row) => row.map(words).join(",")).join(";")})`;
      default: return block.kind;
    }
  };
  return list.map(one).join(" ");
}

const READ = [
  ["plain words", "p:plain words"],
  ["# A **b** c", "h1:A |**b| c"],
  ["a *b* _c_ snake_case_word `d*e`", "p:a |_b| |_c| snake_case_word |`d*e"],
  ["- one\n- two\n  - three\n\nafter", "ul(p:one; p:two ul(p:three)) p:after"],
  ["3. c\n4. d", "ol(p:c; p:d)"],
  ["> said\n> so", "quote(p:said\nso)"],
  ["| a | b |\n|---|:-:|\n| 1 | 2 |", "table(a,b;1,2)"],
  ["```js\n<b>*x*</b>\n```", "code:<b>*x*</b>"],
  ["said [1] and [2][9] and [1, 2]", "p:said |cite 1| and |cite 2|[9] and |cite 1+2"],
  ["[ok](https://a.example/x) [no](javascript:alert(1)) [no](data:text/html,x)", "p:<https://a.example/x>ok| |no|) |no"],
  ["see https://a.example/x.", "p:see |<https://a.example/x>https://a.example/x|."],
  ["![a picture](https://a.example/track.gif)", "p:a picture"],
  ["<script>alert(1)</script> <img onerror=x>", "p:<script>alert(1)</script> <img onerror=x>"],
  ["2 * 3 * 4 and a lone ** and \\*not\\*", "p:2 * 3 * 4 and a lone ** and *not*"],
  ["---", "rule"],
  ["*".repeat(5_000), null],
  ["[".repeat(5_000), null],
  [`${"> ".repeat(2_000)}deep`, null],
];

for (const [markdown, expected] of READ) {
  test(`markdown: ${markdown.slice(0, 40).replaceAll("\n", "⏎")}`, () => {
    const read = told_(blocks(markdown, { sources: 2 }));
    if (expected !== null) assert.equal(read, expected);
  });
}

const MARKED = [
  ["ranges in UTF-16, and the marks for readers without a page go", "Zwölf Läufer [1]. Nein. *(not supported by the sources)*", [["Zwölf Läufer .", 0, 17], ["Nein.", 18, 23]], "p:{0}Zwölf Läufer |cite 1|./ /{1}Nein."],
  ["ranges in bytes are noticed", "Zwölf Läufer [1]. Nein da.", [["Zwölf Läufer .", 0, 19], ["Nein da.", 20, 28]], "p:{0}Zwölf Läufer |cite 1|./ /{1}Nein da."],
  ["list marks and rows stay outside", "- One [1].\n- Two.\n\n| a | b |\n|---|---|\n| Three | 3 |", [["One .", 0, 10], ["Two.", 11, 17], ["Three 3", 39, 52]], "ul(p:{0}One |cite 1|.; p:{1}Two.) table(a,b;{2}Three,{2}3)"],
  ["characters for private use are characters", "A\uE000\uE100b.", [["A b.", 0, 5]], "p:{0}A\uE000\uE100b."],
  ["a fence inside a sentence's range stays a code block", "Run it:\n\n```sh\nls | wc\n```\n\nDone [1].", [["Run it:", 0, 7], ["ls wc", 9, 26], ["Done .", 28, 37]], "p:{0}Run it: code:ls | wc p:{2}Done |cite 1|."],
  ["a range over a whole table leaves its rows and cells", "| a | b |\n|---|--:|\n| 1 | 2 *(not supported by the sources)* |\n| x | y |", [["a b", 0, 9], ["1 2", 20, 62], ["x y", 63, 72]], "table({0}a,{0}b;{1}1,{1}2;{2}x,{2}y)"],
  ["a table without outer bars, and an escaped bar", "a | b\n--- | ---\nc \\| d | e", [["c d e", 16, 26]], "table(a,b;{0}c | d,{0}e)"],
  ["a fence in a list item, with blank lines in it", "1. First:\n\n   ```py title=x\n   a = 1\n\n\n   b = 2\n   ```\n2. Second.", [["First:", 3, 9], ["Second.", 58, 65]], "ol(p:{0}First: code:a = 1\n\n\nb = 2; p:{1}Second.)"],
  ["carriage returns", "One.\r\n\r\nTwo.\r\nThree.", [["One.", 0, 4], ["Two.", 8, 12], ["Three.", 14, 20]], "p:{0}One. p:{1}Two./\n/{2}Three."],
  ["a sentence may end in bold words", "**One. Two** three.", [["One.", 0, 6], ["Two three.", 7, 19]], "p:{0}**One./** /{1}**Two| three."],
];

test("headings: no level is skipped", () => {
  const ranks = blocks("## A\n\n#### B\n\n### C\n\n# D\n\n> ### E").flatMap((block) => block.blocks ?? [block]).map((block) => block.rank);
  assert.deepEqual(ranks, [1, 2, 2, 1, 2]);
});

for (const [name, markdown, list, expected] of MARKED) {
  test(`sentences: ${name}`, () => {
    const { text, sentenceAt } = located(markdown, list.map(([words, start, end]) => ({ text: words, range: [start, end] })));
    const read = told_(blocks(text, { sources: 1, sentenceAt }));
    if (expected !== null) assert.equal(read, expected);
  });
}

test("drafts: sentences out of JSON that is not whole yet", () => {
  for (const [text, expected] of [
    ["plain wor", "plain wor"],
    ['{"facts": [{"sentence": "One.", "source": 1}, {"sentence": "Tw', "One. Tw"],
    ['{"reasoning": "hidden", "response_content": "<p>A \\"b\\"</p><p>c \\u00e', 'A "b"\n\nc'],
    ['{"response_content": "x\\', "x"],
    ["{", ""],
  ]) assert.equal(sentences(text), expected, text);
});

/// A run's events from short lines.
function family(lines, root = "r") {
  const made = newFamily(root);
  const seqs = new Map();
  for (const [run, event, more] of lines) {
    const seq = seqs.get(run) ?? 0;
    seqs.set(run, seq + 1);
    applyEvent(made, { run, seq, event, ...more }, 1_000);
  }
  return made;
}

const tool = (name, args = {}) => ({ call_tool: { tool: name, arguments: args } });
const ok = (value, took_us) => ({ result: { Ok: value }, took_us });
const plan = { tasks: [{ task_number: 1, tool_name: "a", tool_arguments: {}, description: "first" }, { task_number: 2, tool_name: "a", tool_arguments: { of: "{{1.text}}" }, description: "second" }, { task_number: 3, tool_name: "x", description: "third", status: "failed", error: "no such tool" }] };

const SEARCHING = [
  ["r", "started", { flow: "auto", thread: "t", answers: true }],
  ["r", "asked", { task: [1, 0], attempt: 1, label: "search", effect: { call_agent: { agent: "search", input: {} } } }],
  ["c", "started", { flow: "search", thread: "t", answers: true, parent: { run: "r", task: [1, 0] } }],
  ["c", "noted", { step: 0, name: "plan", value: plan }],
  ["c", "asked", { task: [1, 0], attempt: 1, label: "first", effect: tool("a") }],
  ["c", "replied", { task: [1, 0], attempt: 1, reply: { result: { Err: { kind: "network", message: "reset", retry: "yes" } }, took_us: 1_000 }, again_ms: 5 }],
  ["c", "asked", { task: [1, 0], attempt: 2, label: "first", effect: tool("a"), after_ms: 5 }],
  ["c", "replied", { task: [1, 0], attempt: 2, reply: ok("x", 3_000), again_ms: null }],
  ["c", "asked", { task: [1, 1], attempt: 1, label: "second", effect: tool("a", { of: "x" }) }],
];

test("a family: children, retries, clocks, and events received twice", () => {
  const made = family(SEARCHING);
  const main = speaker(made);
  assert.equal(main.flow, "search");
  assert.equal(made.runs.get("r").tasks.get(keyOf("r", [1, 0])).child, "c");
  const first = main.tasks.get(keyOf("c", [1, 0]));
  assert.deepEqual([first.state, first.attempts.length, first.attempts[1].start_us, first.attempts[1].end_us], ["done", 2, 6_000, 9_000]);
  assert.equal(applyEvent(made, { run: "c", seq: 0, event: "started", flow: "other" }), false, "an event that was applied is not applied again");
  assert.deepEqual(planned(main).items.map((item) => item.needs), [[], [1], []]);
  assert.deepEqual(carriedOut(main, planned(main)).map((task) => task?.label ?? null), ["first", "second", null]);
  const { nodes, edges } = workGraph(main);
  assert.deepEqual(nodes.map((node) => [node.title, node.state]), [["first", "done"], ["second", "running"], ["third", "failed"]]);
  assert.deepEqual(edges, [{ from: keyOf("c", [1, 0]), to: keyOf("c", [1, 1]) }]);
  const { rows, total_us } = bars(made, 1_004);
  assert.deepEqual(rows.map((row) => [row.task.label, row.depth, row.parts.length]), [["search", 0, 1], ["first", 1, 2], ["second", 1, 1]]);
  assert.equal(total_us, 13_000, "what goes on grows with the time it is looked at");
});

test("children of one flow belong to the calls that their first events name", () => {
  const call = (index) => ["r", "asked", { task: [1, index], attempt: 1, label: "research", effect: { call_agent: { agent: "panel_researcher", input: {} } } }];
  const started = (run, index) => [run, "started", { flow: "panel_researcher", thread: "t", answers: false, parent: { run: "r", task: [1, index] } }];
  const made = family([["r", "started", { flow: "panel", thread: "t", answers: true }], call(0), call(1), started("second", 1), started("first", 0)]);
  assert.deepEqual([0, 1].map((index) => made.runs.get("r").tasks.get(keyOf("r", [1, index])).child), ["first", "second"]);
  assert.equal(speaker(made).id, "r");
});

test("a draft goes on where it stood, or begins anew", () => {
  const made = newFamily("r");
  const say = (attempt, at, text) => applyDelta(made, { run: "r", task: [0, 0], attempt, at, text });
  say(1, 0, "One ");
  say(1, 4, "two");
  say(1, 0, "One two three");
  assert.equal(made.drafts.get("r/0.0").text, "One two three");
  say(2, 0, "Again");
  assert.equal(made.drafts.get("r/0.0").text, "Again");
});

test("layers: behind everything it needs, loops move nothing", () => {
  const nodes = ["a", "b", "c", "d"].map((id) => ({ id }));
  const edges = [["a", "b"], ["a", "c"], ["b", "d"], ["c", "d"], ["d", "a"]].map(([from, to]) => ({ from, to }));
  const drawn = layers(nodes, edges);
  const x = Object.fromEntries(drawn.nodes.map((node) => [node.id, node.x]));
  assert.ok(x.a < x.b && x.b === x.c && x.c < x.d);
  assert.deepEqual(drawn.edges.filter((edge) => edge.isBack).map((edge) => edge.from), ["d"]);
});

test("a proposal is what the question's schema takes", () => {
  const schema = { properties: { approve: { type: "boolean" }, tasks: { type: "array", items: { properties: { tool_name: {}, tool_arguments: {} } } } } };
  assert.deepEqual(proposal(schema, null, plan).map((list) => [list.name, list.steps.length, list.known]), [["tasks", 2, ["tool_name", "tool_arguments"]]]);
  assert.equal(proposal({ properties: { approve: { type: "boolean" } } }, null, plan), null);
  assert.deepEqual(needs({ a: "{{2.data.url}} {{1}}" }), [2, 1]);
});

test("texts for a list and for limits", () => {
  assert.equal(withoutMarks("## 3 facts\n\n- **One** `two` | three"), "3 facts One two three");
  assert.equal(limitsInWords("budget: calls_max = 2 is used up: 2 spent or promised, 0 kept for the answer, 1 wanted."), "budget: the limit of 2 calls was reached.");
  assert.equal(limitsInWords("time_ms_max = 3000 is used up (0 ms kept for the answer)"), "the limit of 3.0 s was reached");
});

test("times and addresses", () => {
  assert.deepEqual([500, 12_000, 3_400_000, 75_000_000].map(duration), ["<1 ms", "12 ms", "3.4 s", "1 min 15 s"]);
  assert.deepEqual(["https://a.example/", "javascript:alert(1)", "file:///etc/passwd", "nonsense"].map(webAddress), ["https://a.example/", null, null, null]);
});

test("branches: one version of each turn is shown, and every branch is listed", () => {
  const turns = ["a", "b", "c", "b2", "d", "a2"].map((run) => ({ run: { run }, question: run }));
  const after = { b2: "a", a2: "" };
  const shown = (chosen) => pathOf(turns, after, chosen).map((one) => `${one.id}:${one.at + 1}/${one.siblings.length}`).join(" ");
  assert.equal(shown({}), "a2:2/2", "the newest version");
  assert.equal(shown({ "": "a" }), "a:1/2 b2:2/2 d:1/1");
  assert.equal(shown(choicesTo(turns, after, "c")), "a:1/2 b:1/2 c:1/1");
  const branches = branchesOf(turns, after, pathOf(turns, after, { "": "a" }));
  assert.deepEqual(branches.map((one) => [one.id, one.length, one.shared]), [["a2", 1, 0], ["d", 3, 3], ["c", 3, 1]]);
  // A run that follows one which is not loaded stands where it is; turns without a run are part of it.
  assert.deepEqual(pathOf([{ run: null, question: "old" }, { run: { run: "x" } }], { x: "gone" }).map((one) => one.id), ["said-0", "x"]);
});

const mathText = (node) => (typeof node === "string" ? node : `${node.tag}(${node.inner.map(mathText).join(" ")})`);

for (const [tex, expected] of [
  ["x^2", "msup(mi(x) mn(2))"],
  ["\\frac12", "mfrac(mn(1) mn(2))"],
  ["\\sqrt[3]{x}", "mroot(mi(x) mn(3))"],
  ["\\sum_{i=1}^n i", "mrow(munderover(mo(∑) mrow(mi(i) mo(=) mn(1)) mi(n)) mi(i))"],
  ["\\begin{pmatrix}a & b \\\\ c & d\\end{pmatrix}", "mrow(mo(() mtable(mtr(mtd(mi(a)) mtd(mi(b))) mtr(mtd(mi(c)) mtd(mi(d)))) mo()))"],
  ["\\text{if } x", "mrow(mtext(if\u00a0) mi(x))"],
  ["\\unknown", null],
  ["{a", null],
  ["a}", null],
  ["{".repeat(1_000), null],
  ["x".repeat(5_000), null],
]) {
  test(`formula: ${tex.slice(0, 40)}`, () => assert.equal(mathOf(tex) && mathText(mathOf(tex)), expected));
}

for (const [language, code, expected] of [
  ["python", "def f(): # 1\n  return 'if 2'", "[keyword def] f(): [comment # 1]\n  [keyword return] [string 'if 2']"],
  ["rust", "let x = 0x1f; /* fn", "[keyword let] x = [number 0x1f]; [comment /* fn]"],
  ["sql", "SELECT a -- b", "[keyword SELECT] a [comment -- b]"],
  ["unheard-of", "def f()", "def f()"],
]) {
  test(`code: ${language}`, () => {
    const parts = highlighted(code, language);
    assert.equal(parts.map((part) => part.text).join(""), code, "nothing is lost");
    assert.equal(parts.map((part) => (part.kind ? `[${part.kind} ${part.text}]` : part.text)).join(""), expected);
  });
}

for (const [text, expected] of [
  ["is $x^2$ here", ["x^2"]],
  ["costs $5 or $6", []],
  ["from $5-$6 and 7$", []],
  ["a \\(b_1\\) c", ["b_1"]],
  ["$$\na = b\n$$", ["a = b"]],
  ["open \\( and $ only", []],
]) {
  test(`formulas in text: ${text.replaceAll("\n", "⏎")}`, () => {
    const runs = blocks(text).flatMap((block) => block.words).flatMap((group) => group.runs);
    assert.deepEqual(runs.filter((run) => run.math).map((run) => run.text), expected);
  });
}
