"""Restate servers and Baton's workers for the tests beside this: one server on loopback, or a cluster of three in network namespaces of its own, whose
members can be killed and cut off from one another."""
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "scale.d"))
from network import Proxy  # noqa: E402
from servers import BATON, OPENER, can, eventually  # noqa: E402

SERVER = os.environ["BATON_RESTATE_SERVER"]
CONTROL = os.environ.get("BATON_RESTATECTL")
NAME = "batonrestate"
# The host's own address in the network of the three.
HOST = "10.231.78.1"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def is_well(url):
    try:
        with OPENER.open(urllib.request.Request(url), timeout=2) as response:
            return response.status == 200
    except OSError:
        return False


class Node:
    """One Restate server with its data, in the network namespace of this name or on loopback."""

    def __init__(self, folder, name, config, ingress, admin, namespace=None):
        self.folder, self.ingress, self.admin = folder, ingress, admin
        folder.mkdir(parents=True)
        self.file = folder / "restate.toml"
        self.file.write_text(f'node-name = "{name}"\ncluster-name = "baton-lab"\nbase-dir = "{folder / "data"}"\n{config}')
        self.before = ["ip", "netns", "exec", namespace] if namespace else []
        self.process = None
        self.start()

    def start(self):
        log = (self.folder / "server.log").open("ab")
        environment = {**os.environ, "DO_NOT_TRACK": "1"}
        self.process = subprocess.Popen(
            [*self.before, SERVER, "-c", str(self.file), "--no-logo"], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def until_ready(self):
        eventually(f"{self.ingress} is ready", lambda: is_well(f"{self.admin}/health") and is_well(f"{self.ingress}/restate/health"))


def single(folder):
    ingress, admin, node = free_port(), free_port(), free_port()
    config = f"""listen-mode = "tcp"
bind-address = "127.0.0.1:{node}"
advertised-address = "http://127.0.0.1:{node}/"
disable-telemetry = true
auto-provision = true
default-num-partitions = 4
rocksdb-total-memory-size = "256.0 MiB"
[admin]
bind-address = "127.0.0.1:{admin}"
[ingress]
bind-address = "127.0.0.1:{ingress}"
"""
    server = Node(folder, "n1", config, f"http://127.0.0.1:{ingress}", f"http://127.0.0.1:{admin}")
    server.until_ready()
    return server


class Cluster:
    """Three servers with replication 2, each in a network namespace; a bridge connects them and this machine."""

    def __init__(self, folder):
        self.nodes, self.cuts = [], []
        try:
            self.start(folder)
        except BaseException:
            self.close()
            raise

    def start(self, folder):
        addresses = [f"10.231.78.{11 + n}" for n in range(3)]
        self.addresses = addresses
        self.remove_network()
        lines = [f"ip link add {NAME} type bridge", f"ip addr add {HOST}/24 dev {NAME}", f"ip link set {NAME} up"]
        for n, address in enumerate(addresses):
            lines += [
                f"ip netns add {NAME}{n}", f"ip link add brestate{n} type veth peer name eth0 netns {NAME}{n}", f"ip link set brestate{n} master {NAME}",
                f"ip link set brestate{n} up", f"ip -n {NAME}{n} addr add {address}/24 dev eth0", f"ip -n {NAME}{n} link set eth0 up", f"ip -n {NAME}{n} link set lo up",
            ]
        for line in lines:
            subprocess.run(line.split(), check=True)
        known = ", ".join(f'"http://{address}:5122/"' for address in addresses)
        for n, address in enumerate(addresses):
            config = f"""listen-mode = "tcp"
bind-address = "0.0.0.0:5122"
advertised-address = "http://{address}:5122/"
roles = ["http-ingress", "admin", "worker", "log-server", "metadata-server"]
disable-telemetry = true
auto-provision = false
default-replication = 2
default-num-partitions = 6
rocksdb-total-memory-size = "256.0 MiB"
[metadata-client]
type = "replicated"
addresses = [{known}]
[bifrost]
default-provider = "replicated"
[admin]
bind-address = "0.0.0.0:9070"
[ingress]
bind-address = "0.0.0.0:8080"
"""
            self.nodes.append(Node(folder / f"n{n}", f"n{n}", config, f"http://{address}:8080", f"http://{address}:9070", f"{NAME}{n}"))
        provision = [CONTROL, "-s", f"http://{addresses[0]}:5122", "provision", "--yes", "--replication", "2", "--num-partitions", "6"]
        # It exits with 0 also when the server does not answer yet.
        said = lambda: subprocess.run(provision, capture_output=True, text=True, check=False).stdout
        eventually("the cluster is provisioned", lambda: "has been successfully provisioned" in said(), every=0.5)
        for node in self.nodes:
            node.until_ready()

    def status(self):
        said = subprocess.run([CONTROL, "-s", f"http://{self.addresses[0]}:5122", "status"], capture_output=True, text=True, check=False)
        return said.stdout + said.stderr

    def cut(self, victim):
        """Nothing passes between this server and the other two, in either direction. Workers and clients still reach it, and it them."""
        for n in range(3):
            if n != victim:
                self.cuts += [(victim, self.addresses[n]), (n, self.addresses[victim])]
        for n, address in self.cuts:
            subprocess.run(["ip", "-n", f"{NAME}{n}", "route", "add", "blackhole", f"{address}/32"], check=True)
        assert not any(self.reaches(n, address) for n, address in self.cuts), "the cut has no effect"

    def heal(self):
        for n, address in self.cuts:
            subprocess.run(["ip", "-n", f"{NAME}{n}", "route", "del", "blackhole", f"{address}/32"], check=True)
        assert all(self.reaches(n, address) for n, address in self.cuts), "the cut is not healed"
        self.cuts = []

    def reaches(self, n, address):
        connect = f"import socket; socket.create_connection(('{address}', 5122), 1)"
        return can("ip", "netns", "exec", f"{NAME}{n}", sys.executable, "-c", connect)

    def remove_network(self):
        for n in range(3):
            can("ip", "netns", "del", f"{NAME}{n}")
            can("ip", "link", "del", f"brestate{n}")
        can("ip", "link", "del", NAME)

    def close(self):
        for node in self.nodes:
            node.kill()
        self.remove_network()


class Worker:
    """A worker of Baton. Several share a port; `advertised` is where the Restate servers find it."""

    def __init__(self, home, admin, port, script, advertised=None, extra=None):
        self.log = home.folder / f"worker-{time.time_ns()}.log"
        more = ["--advertise", advertised] if advertised else []
        self.process = subprocess.Popen(
            [BATON, "worker", "--restate", admin, "--listen", f"127.0.0.1:{port}", "--json", *more],
            env=home.environment(script, extra), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log.open("wb"), start_new_session=True,
        )
        line = self.process.stdout.readline()
        assert b"registered" in line, f"the worker did not start: {line}\n{self.log.read_text()}"
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        # So that they end with the others.
        home.servers.append(self)

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def serve(home, ingress, script, extra=None):
    return home.serve(script, extra=extra, args=["--engine", "restate", "--restate", ingress])


def reachable_workers(port):
    """Workers listen on loopback: this passes on what the servers in other namespaces send. Returns the address to register."""
    proxy = Proxy(port, 0, HOST)
    return f"http://{HOST}:{proxy.port}"


def query(admin, sql):
    request = urllib.request.Request(f"{admin}/query", data=json.dumps({"query": sql}).encode(), headers={"content-type": "application/json", "accept": "application/json"})
    with OPENER.open(request, timeout=30) as response:
        return json.load(response)["rows"]


def until_idle(admin):
    """No invocation is left."""
    eventually("no invocation is left", lambda: not query(admin, "select id from sys_invocation where status != 'completed'"))
