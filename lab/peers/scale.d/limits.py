"""Two servers on one Postgres share the limits of a provider's key: calls at once, calls per minute, the breaker, and equal shares for users."""
import http.server
import json
import re
import threading
import time

from servers import IS_LONG, Home, eventually


class Provider(http.server.ThreadingHTTPServer):
    """An OpenAI-compatible model that takes a while, and remembers when it was called for whom."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, seconds):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seconds, self.is_down = seconds, False
        self.lock = threading.Lock()
        self.now = self.most = 0
        # When, and the mark in the question.
        self.calls = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def configuration(self, **settings):
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        # It listens at this machine's own address, which is shared only if configured.
        head = ['model = "compat/lab/lab"', "[endpoints.lab]", f'url = "http://127.0.0.1:{self.server_port}/v1"', "shared = true"]
        return "\n".join([*head, 'key = { env = "LAB_KEY" }', *lines]) + "\n"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.reply(200, "application/json", json.dumps({"object": "list", "data": [{"id": "lab", "object": "model"}]}))

    def do_POST(self):
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        mark = re.search(r"mark-(\w+)-\d+", text)
        lab = self.server
        with lab.lock:
            lab.now += 1
            lab.most = max(lab.most, lab.now)
            lab.calls.append((time.monotonic(), mark.group(1) if mark else "?"))
        time.sleep(lab.seconds)
        with lab.lock:
            lab.now -= 1
        if lab.is_down:
            self.reply(500, "application/json", '{"error": {"message": "down"}}')
        elif json.loads(text).get("stream"):
            usage = {"prompt_tokens": 1, "completion_tokens": 1}
            chunks = [{"choices": [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": None}]}, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}]
            self.reply(200, "text/event-stream", "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n")
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}
            self.reply(200, "application/json", json.dumps({"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}))

    def reply(self, status, kind, text):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


def two_servers(home, provider, **settings):
    (home.folder / "baton.toml").write_text(provider.configuration(**settings))
    extra = {"BATON_CONFIG": str(home.folder / "baton.toml"), "LAB_KEY": "a-secret-of-the-lab"}
    return [home.serve("", extra=extra) for _ in range(2)]


def ask(server, user, number, token=None):
    headers = {"authorization": f"Bearer {token}"} if token else {}
    status, reply = server.call("/api/runs", {"flow": "direct", "question": f"mark-{user}-{number}"}, headers=headers)
    assert status == 201, (status, reply)
    return reply["run"]


def at_once():
    provider = Provider(0.25)
    with Home() as home:
        servers = two_servers(home, provider, calls_max=3)
        runs = [(servers[n % 2], ask(servers[n % 2], "local", n)) for n in range(16)]
        for server, run in runs:
            server.wait(run)
        assert len(provider.calls) == len(runs), f"{len(provider.calls)} calls of {len(runs)} runs"
        assert provider.most == 3, f"{provider.most} calls at once, of at most 3 for both servers"
        names = home.sql(f"SELECT name FROM {home.schema}.call_limits").split()
        assert len(names) == 1 and "a-secret" not in names[0], names
        print(f"   {len(runs)} calls of two servers, at most {provider.most} at once (calls_max = 3)")
    provider.shutdown()


def equal_shares():
    provider = Provider(0.25)
    with Home() as home:
        servers = two_servers(home, provider, calls_max=2)
        tokens = {}
        for user in ("ada", "bob"):
            code, out, err = home.baton("tokens", "add", user, "--json", script="")
            assert code == 0, err
            tokens[user] = json.loads(out)["token"]
        runs = [(servers[0], ask(servers[0], "ada", n, tokens["ada"]), "ada") for n in range(20)]
        eventually("ada's calls are at work", lambda: provider.most == 2)
        before = len(provider.calls)
        runs += [(servers[1], ask(servers[1], "bob", n, tokens["bob"]), "bob") for n in range(5)]
        for server, run, user in runs:
            eventually(f"{run} has ended", lambda: server.call(f"/api/runs/{run}", headers={"authorization": f"Bearer {tokens[user]}"})[1].get("status") == "done")
        order = [user for _, user in provider.calls]
        last = max(place for place, user in enumerate(order) if user == "bob")
        between = order[before : last + 1].count("ada")
        # Where bob waited with 20 calls of ada before him, each of his calls waits for about one of hers.
        assert between <= 10, f"{between} calls of ada before the last of bob's 5: {order}"
        assert provider.most <= 2, provider.most
        print(f"   bob's 5 calls on one server were through after {between} of ada's 20 on the other")
    provider.shutdown()


def per_minute():
    provider = Provider(0.01)
    with Home() as home:
        # At first 1, then 109 in a minute; 12 at once after a pause.
        servers = two_servers(home, provider, calls_max=50, calls_per_minute_max=120)
        runs = [(servers[n % 2], ask(servers[n % 2], "local", n)) for n in range(16)]
        for server, run in runs:
            server.wait(run)
        times = [at for at, _ in provider.calls]
        took = max(times) - min(times)
        least = (len(runs) - 2) / (109 / 60)
        assert took >= least, f"{len(runs)} calls in {took:.1f} s, which may take no less than {least:.1f} s"
        print(f"   {len(runs)} calls of two servers took {took:.1f} s, at least {least:.1f} s (calls_per_minute_max = 120)")
    provider.shutdown()


def breaker():
    provider = Provider(0.01)
    provider.is_down = True
    with Home() as home:
        left, right = two_servers(home, provider)
        for n in range(5):
            ask(left, "left", n)
        eventually("five calls failed", lambda: len(provider.calls) >= 5)
        time.sleep(0.5)
        # Those that were at work when the fifth failed.
        failed = len(provider.calls)
        assert failed <= 10, failed
        ask(right, "right", 0)
        time.sleep(3)
        assert [user for _, user in provider.calls].count("right") == 0, "the breaker is not open on the other server"
        print(f"   after {failed} failed calls of one server, the other one called the provider no more")
        if IS_LONG:
            provider.is_down = False
            time.sleep(14)
            run = ask(right, "right", 1)
            right.wait(run)
            left.wait(ask(left, "left", 9))
            print("   one call of the other server closed it again for both")
    provider.shutdown()


if __name__ == "__main__":
    at_once()
    equal_shares()
    per_minute()
    breaker()
