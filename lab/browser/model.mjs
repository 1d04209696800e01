// The model of these tests: an OpenAI-compatible server that goes by the schema it is given and by words of the question, and says what it says word by
// word. Everything behind it is real: the server, the engine, the flows, the tools, the documents.
//
//   "slowly" in a question     words come at a reader's pace, so that there is time to stop, to kill, to look
//   "angle brackets"           the answer holds markup and script
//   "blocks"                   the answer has a heading with a number, a list, a fenced code block and a table
//   "at length"                the answer has a hundred paragraphs, all at once
//   "formulas"                 the answer has formulas, prices, and pictures
//   "a diagram"                the answer has a Mermaid diagram
//   "out of order"             the model answers with status 500, but for plans
//   "version"                  the answer names the number of answers given so far, so that no two are alike
import http from "node:http";

const WORD_MS = 8;
/// Longer where the browser is slowed down, so that there is still time.
const SLOW_WORD_MS = 120 * Number(process.env.BATON_BROWSER_SLOW ?? 1);

export async function playModel() {
  /// The keys that came with calls, in order.
  const keys = [];
  const server = http.createServer((request, response) => {
    let body = "";
    request.on("data", (piece) => (body += piece));
    if (request.method === "POST") keys.push(request.headers.authorization ?? "");
    request.on("end", () => reply(request, response, body).catch(() => response.destroy()));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { keys, url: `http://127.0.0.1:${server.address().port}/v1`, close: () => (server.closeAllConnections(), server.close()) };
}

async function reply(request, response, body) {
  if (!request.url.endsWith("/chat/completions")) {
    response.writeHead(200, { "content-type": "application/json" });
    return response.end(JSON.stringify({ data: [{ id: "actor", object: "model" }] }));
  }
  const asked = JSON.parse(body);
  const prompt = asked.messages.map((message) => (typeof message.content === "string" ? message.content : JSON.stringify(message.content)));
  const question = prompt.at(-1) ?? "";
  const schema = asked.response_format?.json_schema?.schema ?? null;
  const words = answerText(schema, question, prompt.join("\n")).split(/(?<=\s)/);
  const usage = { prompt_tokens: Math.ceil(prompt.join(" ").length / 4), completion_tokens: words.length, total_tokens: 0 };
  if (/out of order/i.test(prompt.join("\n")) && !schema?.properties?.tasks && !schema?.properties?.flow) {
    response.writeHead(500, { "content-type": "application/json" });
    return response.end(JSON.stringify({ error: { message: "the model is out of order" } }));
  }
  const pause_ms = /at length/i.test(question) ? 0 : /slowly/i.test(question) && !schema?.properties?.tasks && !schema?.properties?.flow ? SLOW_WORD_MS : WORD_MS;
  const id = { id: "chat-1", model: "actor", created: 0 };
  if (!asked.stream) {
    await pause(words.length * pause_ms);
    response.writeHead(200, { "content-type": "application/json" });
    const choice = { index: 0, finish_reason: "stop", message: { role: "assistant", content: words.join("") } };
    return response.end(JSON.stringify({ ...id, object: "chat.completion", choices: [choice], usage }));
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (choices, more = {}) => response.write(`data: ${JSON.stringify({ ...id, object: "chat.completion.chunk", choices, ...more })}\n\n`);
  for (const word of words) {
    send([{ index: 0, delta: { role: "assistant", content: word }, finish_reason: null }]);
    await pause(pause_ms);
  }
  send([{ index: 0, delta: {}, finish_reason: "stop" }]);
  send([], { usage });
  return response.end("data: [DONE]\n\n");
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

function answerText(schema, question, prompt) {
  const fields = schema?.properties ?? {};
  if (fields.flow) return JSON.stringify({ flow: "search", reason: "it asks for facts" });
  if (fields.intent) return JSON.stringify({ intent: intent(question) });
  if (fields.stages) return JSON.stringify({ stages: [intent(question)] });
  if (fields.sections) return JSON.stringify(outline(prompt));
  if (fields.summary && !fields.key_points) return JSON.stringify({ summary: question.includes("[1]") ? "The baton is 28 to 30 centimetres long and weighs at least 50 grams [1]." : "Batons are handed on." });
  if (fields.tasks) return JSON.stringify(plan(prompt));
  if (fields.steps) return JSON.stringify({ steps: plan(prompt).tasks.map((task) => ({ description: task.description, tool: task.tool_name, arguments: task.tool_arguments })), estimated_complexity: "simple", success_criteria: [] });
  const text = answer(question, prompt);
  if (fields.response_content) return JSON.stringify({ reasoning: "The passages say it.", response_content: text });
  if (schema) return JSON.stringify(filled(schema, text));
  return text;
}

const intent = (question) => (/summar/i.test(question) ? "summarize" : /discuss|talk about/i.test(question) ? "conversation_query" : "search");

function plan(prompt) {
  const tool = /docs\.search/.test(prompt) ? "docs.search" : "stories.search";
  const task = (number, query, description) => ({ task_number: number, tool_name: tool, tool_arguments: { query }, description });
  return { reasoning: "The rules and the history are in the documents.", tasks: [task(1, "relay baton weight and length", "How heavy and long it is"), task(2, "first relay race", "Where relays come from")] };
}

/// The comment "Leave out the history" on an outline leaves it out.
function outline(prompt) {
  const sections = [
    { heading: "Length and weight", question: "How long and heavy is a relay baton?" },
    { heading: "History", question: "Where do relay races come from?" },
    { heading: "Handover", question: "How is a relay baton handed over?" },
  ];
  return { title: "Relay batons", sections: /leave out the history/i.test(prompt) ? sections.filter((one) => one.heading !== "History") : sections, ask_user: null };
}

/// From what stands in the evidence, by its numbers; a sentence without a number has no source.
function answer(question, prompt) {
  if (/angle brackets/i.test(question)) return ANGLES;
  if (/formulas/i.test(question)) return FORMULAS;
  if (/a diagram/i.test(question)) return DIAGRAM;
  const number = (words) => {
    const before = prompt.slice(0, Math.max(0, prompt.indexOf(words)));
    const numbers = [...before.matchAll(/\[(\d+)\]/g)];
    return numbers.length > 0 ? numbers.at(-1)[1] : "1";
  };
  const parts = [];
  if (prompt.includes("weighs at least 50 grams")) parts.push(`The baton is 28 to 30 centimetres long and weighs at least 50 grams [${number("28 to 30 centimetres long")}].`);
  if (prompt.includes("Philadelphia in 1893")) parts.push(`The first modern relay race was run in Philadelphia in 1893 [${number("Philadelphia in 1893")}].`);
  if (parts.length === 0) parts.push("A relay baton is a tube that one runner hands to the next, and the race goes to those who hand it over well.");
  if (/blocks/i.test(question)) return blocks(parts.join(" "), number("28 to 30 centimetres long"));
  if (/at length/i.test(question)) return Array.from({ length: 100 }, (_, at) => `${parts.join(" ")} This is paragraph ${at + 1} of many.`).join("\n\n");
  if (/slowly/i.test(question)) parts.push("The words of this answer come one after another, as slowly as somebody would read them aloud, so that there is time to look at them.");
  if (/version/i.test(question)) parts.push(`This is answer number ${(answers += 1)}, given after ${(prompt.match(/version/gi) ?? []).length} mentions.`);
  if (/greeks/i.test(question)) parts.push("It was invented by 7 Greeks in 1650.");
  return parts.join(" ");
}

const blocks = (lead, source) =>
  [
    "## 3 facts about batons",
    lead,
    `- It is 28 to 30 centimetres long [${source}].`,
    "```python\ndef weight(grams: int) -> bool:\n    # The rule: at least 50 | grams. See [1].\n\n    return grams >= 50\n```",
    `| Property | Value |\n|---|--:|\n| Length | 28 to 30 centimetres [${source}] |\n| Weight | at least 50 grams [${source}] |\n| Colour | 7 kinds of red |`,
    "Is that all?",
  ].join("\n\n");

let answers = 0;

const FORMULAS = [
  "The sum is $\\sum_{i=1}^{n} i = \\frac{n(n+1)}{2}$, and a baton costs $5 or $6.",
  "$$\\int_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt{\\pi}}{2}$$",
  "An unknown one stays as it is: \\(\\mystery{x}\\).",
  "![A dot](data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==) and ![a tracker](https://tracker.example/pixel.gif)",
].join("\n\n");

const DIAGRAM = "The baton goes from hand to hand.\n\n```mermaid\ngraph LR\n  A[First runner] -->|baton| B[Second runner]\n  B --> C{Finish?}\n```\n\nThat is all.";

const ANGLES = [
  "Some <script>window.hurt = 1</script> and <img src=x onerror=\"window.hurt = 2\"> stand here.",
  "[a link](javascript:window.hurt=3) and <svg onload=window.hurt=4> too, **bold <b onclick=\"window.hurt=5\">words</b>**.",
].join("\n\n");

/// Anything that fits.
function filled(schema, text) {
  if (schema.enum) return schema.enum[0];
  if (schema.const !== undefined) return schema.const;
  switch ([].concat(schema.type)[0]) {
    case "object":
      return Object.fromEntries((schema.required ?? Object.keys(schema.properties ?? {})).map((name) => [name, filled(schema.properties?.[name] ?? {}, text)]));
    case "array":
      return Array.from({ length: schema.minItems ?? 0 }, () => filled(schema.items ?? {}, text));
    case "integer":
    case "number":
      return schema.minimum ?? 1;
    case "boolean":
      return true;
    default:
      return text.slice(0, schema.maxLength ?? text.length);
  }
}
