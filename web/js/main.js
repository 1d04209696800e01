// Where the page begins.
import { render } from "preact";
import { html } from "./core/html.js";
import { loadWords } from "./core/words.js";
import "./data/notify.js";
import { loadModels, loadStatus } from "./data/status.js";
import { begin } from "./data/threads.js";
import { App } from "./view/app.js";

await loadWords();
render(html`<${App} />`, document.getElementById("page"));
performance.mark("baton:interactive");
loadStatus();
loadModels();
begin();
