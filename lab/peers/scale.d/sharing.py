"""What servers share: pieces of an answer reach a page at another server while they are generated, uploads are found, read and deleted at any of them and read by
one of them, a mail that one sent is known to all, and MCP servers are imported and switched for all."""
import http.server
import json
import threading
import time

from servers import Home, eventually


def uploads():
    with Home() as home:
        # Servers on different machines have folders of their own.
        place = lambda name: {"BATON_DB": str(home.folder / name / "baton.db"), "XDG_CACHE_HOME": str(home.folder / name / "cache")}
        for name in ("left", "right"):
            (home.folder / name).mkdir()
        left, right = home.serve("sample", extra=place("left")), home.serve("sample", extra=place("right"))
        text = b"# Tides\n\nThe tide table of Brest lists 6.92 metres for the highest tide.\n" * 40
        names = lambda server: [file["name"] for file in server.call("/api/documents")[1]["files"]]
        states = lambda server: {file["name"]: file["state"] for file in server.call("/api/documents")[1]["files"]}
        status, reply = left.call("/api/documents/tides.md", raw=text, method="PUT", headers={"content-type": "application/octet-stream"})
        assert status in (200, 201), (status, reply)
        begun = time.monotonic()
        eventually("the upload is at the other server", lambda: names(right) == ["tides.md"], patience=20)
        took = time.monotonic() - begun
        eventually("and indexed there", lambda: states(right)["tides.md"] == "indexed", patience=60)
        eventually("and here", lambda: states(left)["tides.md"] == "indexed", patience=60)
        made = lambda: home.sql(f"SELECT count(passages), count(*) FROM {home.schema}.file_passages")
        # One of them read it, for both.
        eventually("its passages are kept for all servers", lambda: made() == "1|1", patience=20)
        right.kill()
        left.call("/api/documents/more.md", raw=b"# More\n\nThe harbour of Brest is deep.\n", method="PUT", headers={"content-type": "application/octet-stream"})
        right = home.serve("sample", extra=place("right"))
        eventually("what was uploaded meanwhile is there after a start", lambda: sorted(names(right)) == ["more.md", "tides.md"], patience=20)
        status, _ = right.call("/api/documents/tides.md", method="DELETE")
        assert status in (200, 204), status
        eventually("deleted at the other one too", lambda: names(left) == ["more.md"], patience=20)
        eventually("with what was made of it", lambda: made() == "1|1", patience=20)
        print(f"   an upload was at the other server after {took:.2f} s; deletions too")


class SlowModel(http.server.BaseHTTPRequestHandler):
    """An OpenAI-compatible model that streams a word at a time."""

    protocol_version = "HTTP/1.1"
    WORDS = [f"word{n} " for n in range(60)]

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.reply(json.dumps({"object": "list", "data": [{"id": "slow", "object": "model"}]}))

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not asked.get("stream"):
            message = {"role": "assistant", "content": "".join(self.WORDS)}
            self.reply(json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 60}}))
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for word in self.WORDS:
            chunk = {"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.flush()
            time.sleep(0.1)
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 60}}
        self.wfile.write(f"data: {json.dumps(end)}\n\ndata: [DONE]\n\n".encode())
        self.close_connection = True

    def reply(self, text):
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


def pieces():
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), SlowModel)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    with Home() as home:
        home.folder.joinpath("baton.toml").write_text(
            f'model = "compat/slow/slow"\n[endpoints.slow]\nurl = "http://127.0.0.1:{model.server_port}/v1"\n'
        )
        extra = {"BATON_CONFIG": str(home.folder / "baton.toml")}
        environment = lambda server: {**extra}
        left = home.serve("", extra=environment("left"))
        right = home.serve("", extra=environment("right"))
        run = left.start(flow="direct", question="Say the words.")
        pieces, first = [], None
        for _, event, data in right.events(run):
            if event == "delta":
                first = first or time.monotonic()
                pieces.append(data.get("text", ""))
            if event == "end":
                break
        ended = time.monotonic()
        text = "".join(pieces)
        assert first and ended - first > 2, f"{len(pieces)} pieces, not while the answer was generated"
        assert text in "".join(SlowModel.WORDS) and len(text) > 200, text
        print(f"   the other server streamed {len(text)} characters in {len(pieces)} pieces, from {ended - first:.1f} s before the end on")
    model.shutdown()


def mails_and_tools():
    with Home() as home:
        home.folder.joinpath("baton.toml").write_text('model = "extract"\n')
        place = lambda name: {"BATON_DB": str(home.folder / name / "baton.db"), "XDG_CACHE_HOME": str(home.folder / name / "cache"), "BATON_CONFIG": str(home.folder / "baton.toml")}
        for name in ("left", "right"):
            (home.folder / name).mkdir()
        left, right = home.serve("", extra=place("left")), home.serve("", extra=place("right"))

        def call(server, tool, **arguments):
            status, reply = server.call(f"/api/registry/tools/{tool}/call", {"arguments": arguments, "key": "one-mail"})
            assert status == 200, (status, reply)
            return reply["data"]

        letter = {"to": ["ann@example.org"], "subject": "Tides", "body": "High water at nine."}
        assert call(right, "mail.look_up")["done"] is False
        sent = call(left, "mail.send", **letter)
        assert sent["already"] is False, sent
        # Nothing of it is on the other server's disk.
        assert call(right, "mail.look_up")["done"] is True
        assert call(right, "mail.send", **letter)["already"] is True
        print("   a mail that one server sent was not sent again by the other")

        entry = [{"name": "a/notes", "description": "n", "remotes": [{"type": "streamable-http", "url": "http://127.0.0.1:9/mcp"}]}]
        status, reply = left.call("/api/registry/import", {"list": entry})
        assert status == 200 and reply["added"] == ["notes"], (status, reply)
        servers = lambda server: {found["name"]: found["enabled"] for found in server.call("/api/registry/servers")[1]["servers"]}
        begun = time.monotonic()
        eventually("the import is at the other server", lambda: servers(right).get("notes") is False, patience=30)
        took = time.monotonic() - begun
        assert right.call("/api/registry/servers/notes/enable", method="POST")[0] == 200
        eventually("switched on at the first one too", lambda: servers(left).get("notes") is True, patience=30)
        left.kill()
        assert right.call("/api/registry/servers/notes/disable", method="POST")[0] == 200
        left = home.serve("", extra=place("left"))
        eventually("what was switched off meanwhile is off after a start", lambda: servers(left).get("notes") is False, patience=30)
        print(f"   an imported MCP server was at the other server after {took:.1f} s; switches too")


if __name__ == "__main__":
    uploads()
    pieces()
    mails_and_tools()
