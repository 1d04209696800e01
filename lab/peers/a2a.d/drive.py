"""Baton's supervisor with an agent written with `a2a-sdk`: `drive.py BATON FOLDER`. Either side is killed in the middle, and runs are cancelled."""
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from processes import started
from serving import free_port

baton, folder = sys.argv[1], Path(sys.argv[2]).resolve()
folder.mkdir(parents=True, exist_ok=True)
port, grpc_port = free_port(), free_port()
# Whether the agent uses gRPC, at a port of its own.
over_grpc = False
begun = folder / "begun"
begun.write_text("")
os.environ["BEGUN"] = str(begun)


def agent(mode):
    more = [grpc_port] if over_grpc else []
    return started([sys.executable, Path(__file__).with_name("agent.py"), port, mode, *more], folder / "agent.log")


def command(*words):
    config = folder / "baton.toml"
    config.write_text(
        'model = "extract"\n[team]\nagent_s_max = 60\nattempts_max = 6\nretries_max = 1\n'
        f'[agents.oceanographer]\nprotocol = "a2a"\nurl = "http://127.0.0.1:{port}"\n'
        + (f'grpc_url = "http://127.0.0.1:{grpc_port}"\n' if over_grpc else "")
    )
    return [str(word) for word in [baton, "--config", config, "--db", folder / "drive.db", *words]]


ASK = ["ask", "--flow", "supervise", "--json", "research tides"]


def ended(out):
    for line in reversed(out.splitlines()):
        if line.startswith("{") and json.loads(line).get("event") == "ended":
            outcome = json.loads(line)["outcome"]
            return outcome.get("output", outcome)
    raise AssertionError(out)


def ran(*words):
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=180)
    return done.stdout + done.stderr


def run_of(out):
    return next(json.loads(line)["run"] for line in out.splitlines() if line.startswith("{") and json.loads(line).get("event") == "started")


def answers(mode):
    with agent(mode):
        output = ended(ran(*ASK))
    assert output["completed_capabilities"] == ["research"] and "The moon raises them. You said: research tides" in output["answer"], output


def fails(mode, why):
    with agent(mode):
        output = ended(ran(*ASK))
    assert output["completed_capabilities"] == [] and why in output["answer"], output


def asks():
    """The agent's question reaches a person here, and the answer reaches the same task."""
    with agent("asking"):
        out = ran(*ASK)
        assert "Which sea?" in out, out
        output = ended(ran("runs", "answer", run_of(out), "the North Sea", "--json"))
    assert "You said: the North Sea" in output["answer"], output


def beginning():
    begun.write_text("")
    process = subprocess.Popen(command(*ASK), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not begun.read_text():
        assert time.monotonic() < until and process.poll() is None, process.communicate()
        time.sleep(0.1)
    return process


def we_are_killed():
    with agent("slowly"):
        process = beginning()
        process.kill()
        out, _ = process.communicate()
        output = ended(ran("runs", "resume", run_of(out), "--json"))
    assert output["completed_capabilities"] == ["research"], output
    assert begun.read_text() == "x", f"the task was found again, not begun again: {begun.read_text()}"


def they_are_killed():
    with agent("slowly"):
        process = beginning()
    with agent("slowly"):
        out, err = process.communicate(timeout=240)
    output = ended(out + err)
    assert output["completed_capabilities"] == ["research"], output
    assert begun.read_text() == "xx", f"it kept nothing, so it was asked again, once: {begun.read_text()}"


def we_cancel(mode):
    """Cancelling the run here stops the task there."""
    with agent(mode):
        process = beginning()
        run = next(json.loads(line)["run"] for line in process.stdout if line.startswith("{") and json.loads(line).get("event") == "started")
        cancelled = ran("runs", "cancel", run)
        out, err = process.communicate(timeout=60)
        assert '"cancelled"' in out, (cancelled, out, err)
        until = time.monotonic() + 10
        while "cancelled" not in begun.read_text():
            assert time.monotonic() < until, (begun.read_text(), err[-2000:])
            time.sleep(0.1)


def on_grpc(test):
    def tested():
        global over_grpc
        over_grpc = True
        try:
            test()
        finally:
            over_grpc = False

    return tested


for name, test in {
    "answers": lambda: answers("plain"),
    "answers over HTTP+JSON": lambda: answers("resting"),
    "answers without streams": lambda: answers("polled"),
    "fails": lambda: fails("failing", "it hurts"),
    "rejects": lambda: fails("rejecting", "not my field"),
    "asks": asks,
    "we are killed": we_are_killed,
    "they are killed": they_are_killed,
    "we cancel": lambda: we_cancel("slowly"),
    "we cancel over HTTP+JSON": lambda: we_cancel("slowly-resting"),
    "we cancel without streams": lambda: we_cancel("slowly-polled"),
    "answers over gRPC": on_grpc(lambda: answers("plain")),
    "answers over gRPC without streams": on_grpc(lambda: answers("polled")),
    "fails over gRPC": on_grpc(lambda: fails("failing", "it hurts")),
    "asks over gRPC": on_grpc(asks),
    "we are killed over gRPC": on_grpc(we_are_killed),
    "they are killed over gRPC": on_grpc(they_are_killed),
    "we cancel over gRPC": on_grpc(lambda: we_cancel("slowly")),
}.items():
    test()
    print("ok", name, flush=True)
