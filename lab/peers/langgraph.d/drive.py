"""Baton's supervisor with graphs of a real `langgraph dev` server: `drive.py BATON FOLDER`. Either side is killed in the middle, and a run is cancelled."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from serving import free_port

baton, folder = sys.argv[1], Path(sys.argv[2]).resolve()
folder.mkdir(parents=True, exist_ok=True)
shutil.copy(Path(__file__).with_name("graphs.py"), folder / "graphs.py")
graphs = {"agent": "agent", "asking": "asking", "failing": "failing", "slowly": "slowly"}
(folder / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": {name: f"./graphs.py:{value}" for name, value in graphs.items()}}))
port = free_port()
url = f"http://127.0.0.1:{port}"
begun = folder / "begun"


@contextmanager
def developing():
    command = [str(Path(sys.executable).with_name("langgraph")), "dev", "--no-browser", "--no-reload", "--port", str(port)]
    with (folder / "dev.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env={**os.environ, "BEGUN": str(begun)}, start_new_session=True)
    try:
        until = time.monotonic() + 90
        while True:
            try:
                urllib.request.urlopen(f"{url}/ok", timeout=1).read()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < until, (folder / "dev.log").read_text()[-2000:]
                time.sleep(0.2)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def command(graph, *words):
    config = folder / f"{graph}.toml"
    config.write_text(
        'model = "extract"\n[team]\nagent_s_max = 60\nattempts_max = 6\nretries_max = 1\n'
        f'[agents.researcher]\nprotocol = "langgraph"\nurl = "{url}"\npath = "{graph}"\ncapabilities = ["research"]\n'
    )
    return [baton, "--config", config, "--db", folder / "drive.db", *words]


def ended(out):
    for line in reversed(out.splitlines()):
        if line.startswith("{") and json.loads(line).get("event") == "ended":
            outcome = json.loads(line)["outcome"]
            return outcome.get("output", outcome)
    raise AssertionError(out)


def ask(graph):
    done = subprocess.run(command(graph, "ask", "--flow", "supervise", "--json", "research tides"), capture_output=True, text=True, timeout=180)
    return done.stdout + done.stderr


def answers():
    output = ended(ask("agent"))
    assert output["completed_capabilities"] == ["research"] and output["context"]["python"] is True, output


def fails():
    output = ended(ask("failing"))
    assert output["completed_capabilities"] == [] and "it hurts" in output["answer"], output


def asks():
    """The graph's question reaches a person here, and the answer reaches the graph."""
    out = ask("asking")
    assert "Which sea?" in out, out
    run = next(json.loads(line)["run"] for line in out.splitlines() if line.startswith("{") and json.loads(line).get("event") == "started")
    answered = subprocess.run(command("asking", "runs", "answer", run, "the North Sea", "--json"), capture_output=True, text=True, timeout=120)
    output = ended(answered.stdout + answered.stderr)
    assert output["context"]["sea"] == "the North Sea", output


def we_are_killed():
    begun.write_text("")
    process = subprocess.Popen([str(word) for word in command("slowly", "ask", "--flow", "supervise", "--json", "research tides")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not begun.read_text():
        assert time.monotonic() < until and process.poll() is None, "the graph never began"
        time.sleep(0.1)
    process.kill()
    out, _ = process.communicate()
    run = next(json.loads(line)["run"] for line in out.splitlines() if json.loads(line).get("event") == "started")
    resumed = subprocess.run(command("slowly", "runs", "resume", run, "--json"), capture_output=True, text=True, timeout=180)
    output = ended(resumed.stdout + resumed.stderr)
    assert output["completed_capabilities"] == ["research"], output
    assert begun.read_text() == "x", f"the graph's run was joined, not begun again: {begun.read_text()}"


def we_cancel():
    """Cancelling the run here stops the graph's run there."""
    begun.write_text("")
    process = subprocess.Popen([str(word) for word in command("slowly", "ask", "--flow", "supervise", "--json", "research tides")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    run = next(json.loads(line)["run"] for line in process.stdout if line.startswith("{") and json.loads(line).get("event") == "started")
    until = time.monotonic() + 60
    while not begun.read_text():
        assert time.monotonic() < until and process.poll() is None, "the graph never began"
        time.sleep(0.1)
    subprocess.run(command("slowly", "runs", "cancel", run), check=True, capture_output=True, timeout=60)
    out, err = process.communicate(timeout=60)
    assert '"cancelled"' in out, (out, err)
    until = time.monotonic() + 10
    while begun.read_text() != "xcancelled":
        assert time.monotonic() < until, (begun.read_text(), err[-2000:])
        time.sleep(0.1)


def they_are_killed():
    begun.write_text("")
    with developing():
        process = subprocess.Popen([str(word) for word in command("slowly", "ask", "--flow", "supervise", "--json", "research tides")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not begun.read_text():
            assert process.poll() is None, process.communicate()
            time.sleep(0.1)
    with developing():
        out, err = process.communicate(timeout=240)
    output = ended(out + err)
    assert output["completed_capabilities"] == ["research"], output


with developing():
    for test in [answers, fails, asks, we_are_killed, we_cancel]:
        test()
        print("ok", test.__name__, flush=True)
they_are_killed()
print("ok they_are_killed", flush=True)
