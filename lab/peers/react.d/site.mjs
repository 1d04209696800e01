// The server of a React page: its files, and everything below a prefix goes on to another server, as a development server's proxy does it.
//
//   const site = await openSite({ modules, prefix, target, entry })   modules: the folder of its packages; prefix: `/baton` unless given, and not part of the path that is passed on if it is that one;
//                                                                     target: an address; entry: a module that is bundled with esbuild
//   site.url · site.requests · site.close()                           requests: method and path of what was passed on
import http from "node:http";
import path from "node:path";
import { createRequire } from "node:module";

const BATON = "/baton";
/// Fonts are not needed to see what a page says.
const loader = { ".woff": "empty", ".woff2": "empty", ".ttf": "empty" };

export async function openSite({ modules, prefix = BATON, target, entry }) {
  const esbuild = createRequire(path.join(modules, "package.json"))("esbuild");
  const stdin = { contents: entry, loader: "jsx", resolveDir: modules };
  const built = await esbuild.build({ stdin, bundle: true, write: false, outdir: "/", format: "esm", jsx: "automatic", loader, define: { "process.env.NODE_ENV": '"production"' }, logLevel: "error" });
  const builtAs = (extension) => built.outputFiles.find((file) => file.path.endsWith(extension))?.text ?? "";
  const files = {
    "/page.js": ["text/javascript", builtAs(".js")],
    "/page.css": ["text/css", builtAs(".css")],
  };
  const page = ["text/html", '<!doctype html><title>Chat</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/page.css"><div id="root"></div><script type="module" src="/page.js"></script>'];
  const requests = [];
  const server = http.createServer((request, response) => {
    if (request.url !== prefix && !request.url.startsWith(`${prefix}/`)) {
      const [kind, text] = files[request.url] ?? page;
      response.writeHead(200, { "content-type": kind });
      return response.end(text);
    }
    const address = new URL(target + (prefix === BATON ? request.url.slice(BATON.length) : request.url));
    requests.push(`${request.method} ${address.pathname}`);
    const passed = http.request(address, { method: request.method, headers: request.headers }, (answer) => {
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
