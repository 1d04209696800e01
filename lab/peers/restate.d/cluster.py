"""A cluster of three Restate servers: one is killed, a worker is killed, and one is cut off from the other two while it still reaches the workers. Every run
ends, each note is there once, and no model call that was answered is made again."""
import http.server
import json
import threading
import time

import restate
from restate import Cluster, Worker, free_port, serve

from servers import IS_LONG, Home, can, eventually

RUNS = 10 if IS_LONG else 4
CUT_S = 20 if IS_LONG else 8
ANSWER_S = 0.4
# From the moment in which an answer was handed over until its worker has stored it.
STORED_S = 0.25


class Model(http.server.ThreadingHTTPServer):
    """Takes its time, and notes for each idempotency key when calls began and when they were answered."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock, self.begun, self.answered = threading.Lock(), [], {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def repeated(self):
        """Calls that began although their key had been answered."""
        return [key for key, at in self.begun if key in self.answered and at > self.answered[key] + STORED_S]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.reply("application/json", json.dumps({"object": "list", "data": [{"id": "small", "object": "model"}]}))

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        key, model = self.headers["idempotency-key"], self.server
        assert key, "a call has no idempotency key"
        with model.lock:
            model.begun.append((key, time.monotonic()))
        time.sleep(ANSWER_S)
        message = {"role": "assistant", "content": "A log that is written first."}
        if asked.get("stream"):
            chunk = lambda delta, finish: f'data: {json.dumps({"id": "x", "object": "chat.completion.chunk", "model": "small", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})}\n\n'
            self.reply("text/event-stream", chunk(message, None) + chunk({}, "stop") + "data: [DONE]\n\n")
        else:
            self.reply("application/json", json.dumps({"id": "x", "object": "chat.completion", "model": "small", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
        with model.lock:
            model.answered.setdefault(key, time.monotonic())

    def reply(self, kind, text):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


def faults(cluster, start, kill_worker):
    """Starts runs before, during and after each fault; returns them."""
    runs = start(RUNS)
    cluster.nodes[2].kill()
    runs += start(RUNS)
    if kill_worker:
        kill_worker()
        runs += start(RUNS)
    # Two of three must be there while one is cut off.
    cluster.nodes[2].start()
    cluster.nodes[2].until_ready()
    time.sleep(3)
    runs += start(RUNS)
    cluster.cut(1)
    begun = time.monotonic()
    runs += start(RUNS)
    time.sleep(max(0, CUT_S - (time.monotonic() - begun)))
    cluster.heal()
    return runs + start(RUNS)


def side_effects(cluster):
    with Home() as home:
        steady = home.script("steady", 'when tool notes.append reply {"n": 1} checkable after 200ms')
        port = free_port()
        address = restate.reachable_workers(port)
        worker = lambda: Worker(home, cluster.nodes[0].admin, port, steady, address)
        workers = [worker(), worker()]
        server, at_victim = serve(home, cluster.nodes[0].ingress, steady), serve(home, cluster.nodes[1].ingress, steady)

        def start(count):
            return [server.start() for _ in range(count)]

        runs = faults(cluster, start, workers[0].kill)
        # The server that was cut off takes runs again.
        runs += [at_victim.start() for _ in range(RUNS)]
        begun = time.monotonic()
        for run in runs:
            server.wait(run)
        took = time.monotonic() - begun
        notes = home.happened("notes.append")
        assert notes == len(runs), f"{notes} notes of {len(runs)} runs"
        for run in runs[:: max(1, len(runs) // 10)]:
            code, out, _ = home.baton("runs", "replay", run)
            assert code == 0 and out.startswith("the same"), out
        restate.until_idle(cluster.nodes[0].admin)
        print(f"   a server killed, a worker killed, a server cut off for {CUT_S} s: {len(runs)} runs ended, the last {took:.1f} s after the last was started; each note is there once")


def paid_calls(cluster):
    model = Model()
    with Home() as home:
        config = home.folder / "baton.toml"
        config.write_text(f'model = "compat/here/small"\n[endpoints.here]\nurl = "http://127.0.0.1:{model.server_port}/v1"\nkey = {{ env = "HERE_KEY" }}\n')
        extra = {"BATON_CONFIG": str(config), "HERE_KEY": "key"}
        port = free_port()
        address = restate.reachable_workers(port)
        workers = [Worker(home, cluster.nodes[0].admin, port, "", address, extra) for _ in range(2)]
        server = serve(home, cluster.nodes[0].ingress, "", extra)
        start = lambda count: [server.start(flow="direct", question=f"What is a write-ahead log, number {time.time_ns()}?") for _ in range(count)]
        runs = faults(cluster, start, None)
        for run in runs:
            server.wait(run)
        repeated = model.repeated()
        assert not repeated, f"answered and made again: {repeated}"
        assert len(model.answered) >= len(runs), f"{len(model.answered)} calls of {len(runs)} runs"
        restate.until_idle(cluster.nodes[0].admin)
        print(f"   a server killed, a server cut off for {CUT_S} s: {len(runs)} runs, {len(model.answered)} model calls answered, {len(model.begun) - len(model.answered)} made again while unanswered, none after its answer")
        assert workers
    model.shutdown()


if __name__ == "__main__":
    if not can("ip", "netns", "add", "batonprobe"):
        raise SystemExit("   cluster: not tried, network namespaces are not permitted here")
    can("ip", "netns", "del", "batonprobe")
    with Home(False) as place:
        cluster = Cluster(place.folder / "cluster")
        try:
            side_effects(cluster)
            paid_calls(cluster)
        except Exception:
            print(cluster.status())
            raise
        finally:
            cluster.close()
