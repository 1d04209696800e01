"""Baton servers for the tests beside this: real processes with a scripted world, on one Postgres or a file."""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote

BATON = os.environ["BATON_BIN"]
ROOT = Path(__file__).parents[3]
SAMPLE = (ROOT / "crates/flows/src/sample/sample.script").read_text()
IS_LONG = "BATON_SCALE" in os.environ
# Longer than anything here takes, also on a machine that does much else.
PATIENCE = 180
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Home:
    """A folder for databases, files and logs, and on Postgres a schema of its own."""

    def __init__(self, shares_postgres=True):
        self.folder = Path(tempfile.mkdtemp(prefix="baton-scale-"))
        self.store = None
        self.servers = []
        if shares_postgres:
            self.schema = f"scale_{os.getpid()}_{time.time_ns()}"
            self.url = os.environ["BATON_POSTGRES_URL"]
            self.sql(f"CREATE SCHEMA {self.schema}")
            self.store = f"{self.url}?options=-c%20search_path%3D{self.schema}"

    def sql(self, text):
        command = ["psql", self.url, "-XAtqv", "ON_ERROR_STOP=1", "-c", text]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def through(self, port):
        """The store's address by way of a proxy at this port."""
        before, after = self.store.split("@", 1)
        return f"{before}@127.0.0.1:{port}/{after.split('/', 1)[1]}"

    def script(self, name, *rules):
        path = self.folder / f"{name}.script"
        # A tool is as delicate as the most delicate rule for it, so rules of the sample for the same tools go.
        tools = [rule.split()[2] for rule in rules if rule.startswith("when tool ")]
        kept = [line for line in SAMPLE.splitlines() if not any(line.startswith(f"when tool {tool} ") for tool in tools)]
        path.write_text("\n".join([*rules, *kept]) + "\n")
        return path

    def environment(self, script, extra=None):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BATON_") or name == "BATON_WEB"}
        own = {
            "BATON_DB": str(self.folder / "baton.db"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            # Without a script, the real world.
            **({"BATON_SCRIPT": str(script)} if script else {}),
            "BATON_NO_PULL": "1",
            "BATON_REGISTRY_URL": "off",
            "BATON_LOG": "info",
        }
        if self.store:
            own["BATON_STORE"] = self.store
        return {**kept, **own, **(extra or {})}

    def serve(self, script, before=(), extra=None, args=()):
        server = Server(self, script, before, extra, args)
        self.servers.append(server)
        return server

    def baton(self, *args, script="sample", extra=None):
        done = subprocess.run([BATON, *args], env=self.environment(script, extra), capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr

    def happened(self, tool):
        """How often a tool changed the outside world."""
        path = self.folder / "baton.db.sample.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return sum(json.loads(line)["effect"].get("call_tool", {}).get("tool") == tool for line in lines)

    def close(self):
        for server in self.servers:
            server.kill()
        if self.store:
            self.sql(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")
        subprocess.run(["rm", "-rf", self.folder], check=False)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None:
            for number, server in enumerate(server for server in self.servers[-3:] if server.log.exists()):
                print(f"-- log of server {number} from the last", file=sys.stderr)
                print("\n".join(server.log.read_text().splitlines()[-25:]), file=sys.stderr)
        self.close()


class Server:
    def __init__(self, home, script, before, extra, args):
        self.log = home.folder / f"serve-{len(home.servers)}.log"
        command = [*before, BATON, "serve", "--port", "0", "--json", *args]
        self.process = subprocess.Popen(
            command, env=home.environment(script, extra), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log.open("wb"), start_new_session=True
        )
        self.url = None
        # Needed on an address that others reach.
        token = (extra or {}).get("BATON_TOKEN")
        self.headers = {"authorization": f"Bearer {token}"} if token else {}
        for line in self.process.stdout:
            if line.startswith(b'{"url"'):
                self.url = json.loads(line)["url"]
                break
        assert self.url, f"the server did not start:\n{self.log.read_text()}"
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def kill(self):
        """At once, with everything that it started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def is_up(self):
        return self.process.poll() is None

    def call(self, path, body=None, method=None, headers=None, raw=None, timeout=30):
        data = raw if raw is not None else (None if body is None else json.dumps(body).encode())
        headers = {"content-type": "application/json", **self.headers, **(headers or {})}
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with OPENER.open(request, timeout=timeout) as response:
                status, text = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text.decode(errors="replace")

    def start(self, **body):
        status, said = self.call("/api/runs", {"question": "What is it?", "flow": "research", **body})
        assert status == 201, (status, said)
        return said["run"]

    def status(self, run):
        code, row = self.call(f"/api/runs/{quote(run)}")
        return row.get("status") if code == 200 else f"HTTP {code}"

    def wait(self, run, wanted=("done",), patience=PATIENCE):
        until = time.monotonic() + patience
        while (found := self.status(run)) not in wanted:
            assert time.monotonic() < until, f"{run} is {found} after {patience} s"
            time.sleep(0.1)
        return found

    def metrics(self):
        status, text = self.call("/metrics")
        assert status == 200, (status, text)
        return {line.split(" ")[0]: float(line.split(" ")[1]) for line in text.splitlines() if line and not line.startswith("#")}

    def events(self, run, after=None, seconds=PATIENCE):
        """Yields (id, event, data) until the stream ends."""
        headers = {"accept": "text/event-stream", **({"last-event-id": after} if after else {})}
        request = urllib.request.Request(f"{self.url}/api/runs/{quote(run)}/events", headers=headers)
        with OPENER.open(request, timeout=seconds) as stream:
            frame = {}
            for line in stream:
                line = line.decode().rstrip("\n")
                if not line:
                    if "event" in frame and "data" in frame:
                        yield frame.get("id"), frame["event"], json.loads(frame["data"])
                    frame = {}
                elif ": " in line:
                    name, value = line.split(": ", 1)
                    frame[name] = value


def eventually(what, check, patience=PATIENCE, every=0.1):
    until = time.monotonic() + patience
    while True:
        try:
            if found := check():
                return found
        except (OSError, AssertionError):
            pass
        assert time.monotonic() < until, f"not within {patience} s: {what}"
        time.sleep(every)


def dice():
    seed = int(os.environ.get("BATON_SEED", time.time_ns() % 1_000_000))
    print(f"seed {seed} (BATON_SEED repeats it)")
    return random.Random(seed)


def can(*command):
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
