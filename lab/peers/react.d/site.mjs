// The server of a React page: its files, and below /baton everything goes on to Baton, as a development server's proxy does it.
//
//   const site = await openSite({ baton, entry })   entry: a module that is bundled with esbuild
//   site.url · site.requests · site.close()         requests: method and path of what went to Baton
import http from "node:http";
import path from "node:path";
import { createRequire } from "node:module";

const modules = process.env.BATON_REACT_MODULES;
const require = createRequire(path.join(modules, "package.json"));
const esbuild = require("esbuild");
const PREFIX = "/baton";

export async function openSite({ baton, entry }) {
  const built = await esbuild.build({ stdin: { contents: entry, loader: "jsx", resolveDir: modules }, bundle: true, write: false, format: "esm", jsx: "automatic", define: { "process.env.NODE_ENV": '"production"' }, logLevel: "error" });
  const bundle = built.outputFiles[0].text;
  const requests = [];
  const server = http.createServer((request, response) => {
    if (!request.url.startsWith(`${PREFIX}/`)) {
      const isScript = request.url === "/page.js";
      response.writeHead(200, { "content-type": isScript ? "text/javascript" : "text/html" });
      return response.end(isScript ? bundle : '<!doctype html><title>Chat</title><link rel="icon" href="data:,"><div id="root"></div><script type="module" src="/page.js"></script>');
    }
    const target = new URL(baton + request.url.slice(PREFIX.length));
    requests.push(`${request.method} ${target.pathname}`);
    const passed = http.request(target, { method: request.method, headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    passed.on("error", () => response.destroy());
    response.on("close", () => passed.destroy());
    request.pipe(passed);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { url: `http://127.0.0.1:${server.address().port}`, requests, close: () => new Promise((done) => (server.closeAllConnections(), server.close(done))) };
}
