// The conformance suite knows servers at an address only. This passes messages on to a server on standard input and output, and changes none of them.
//
//   const bridge = await openBridge(command, args)   each session is a process; requests without a session share one
//   bridge.url · bridge.close()
//
// What a server sends while a request is open (progress, requests of its own) goes to the stream of that request. What HTTP adds to the protocol (headers, sessions,
// origins) is the bridge's and not the server's: scenarios about it show nothing here.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import http from "node:http";
import readline from "node:readline";

export async function openBridge(command, args) {
  const sessions = new Map();
  const server = http.createServer(async (request, response) => {
    if (request.method !== "POST") return response.writeHead(request.method === "DELETE" ? 200 : 405).end();
    let text = "";
    for await (const piece of request) text += piece;
    const message = JSON.parse(text);
    const given = request.headers["mcp-session-id"];
    const id = given ?? (message.method === "initialize" ? randomUUID() : "");
    if (given && !sessions.has(given)) return response.writeHead(404).end();
    if (!sessions.has(id)) sessions.set(id, openSession(command, args));
    const session = sessions.get(id);
    const headers = id ? { "mcp-session-id": id } : {};
    if (message.method === undefined || message.id === undefined) {
      session.send(message);
      return response.writeHead(202, headers).end();
    }
    response.writeHead(200, { ...headers, "content-type": "text/event-stream" });
    response.flushHeaders();
    session.open(message, (line) => response.write(`event: message\ndata: ${line}\n\n`), () => response.end());
    response.on("close", () => session.forget(message.id));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const close = () => {
    for (const session of sessions.values()) session.close();
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${server.address().port}/mcp`, close };
}

function openSession(command, args) {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "ignore"] });
  // The streams that are open, by the id of their request, in the order in which they came.
  const open = new Map();
  readline.createInterface({ input: child.stdout }).on("line", (line) => {
    const message = JSON.parse(line);
    const isReply = message.method === undefined;
    const stream = isReply ? open.get(message.id) : [...open.values()].at(-1);
    stream?.write(line);
    if (isReply && stream) {
      open.delete(message.id);
      stream.end();
    }
  });
  const send = (message) => child.stdin.write(`${JSON.stringify(message)}\n`);
  return {
    send,
    open(message, write, end) {
      open.set(message.id, { write, end });
      send(message);
    },
    forget: (id) => open.delete(id),
    close: () => child.kill("SIGKILL"),
  };
}
