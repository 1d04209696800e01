"""Baton's supervisor with an agent that answers OpenAI's chat completions: `drive.py BATON FOLDER`. Either side is killed in the middle, and runs are cancelled."""
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent / name) for name in ["langserve.d", "langgraph.d"]]
from processes import started  # noqa: E402
from serving import free_port  # noqa: E402

baton, folder = sys.argv[1], Path(sys.argv[2]).resolve()
folder.mkdir(parents=True, exist_ok=True)
port = free_port()
begun = folder / "begun"
os.environ |= {"BEGUN": str(begun), "SEA_TOKEN": "sesame"}
ASK = ["ask", "--flow", "supervise", "--json", "research tides"]


def agent(mode):
    return started([sys.executable, Path(__file__).with_name("agent.py"), port, mode], folder / "agent.log")


def command(*words, model="sea-1", more=""):
    config = folder / "baton.toml"
    config.write_text(
        'model = "extract"\n[team]\nagent_s_max = 60\nattempts_max = 6\nretries_max = 1\n'
        f'[agents.oceanographer]\nprotocol = "openai"\nurl = "http://127.0.0.1:{port}"\nmodel = "{model}"\ncapabilities = ["research"]\ntoken_env = "SEA_TOKEN"\n{more}'
    )
    return [str(word) for word in [baton, "--config", config, "--db", folder / "drive.db", *words]]


def events(out):
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def ended(out):
    for event in reversed(events(out)):
        if event.get("event") == "ended":
            return event["outcome"].get("output", event["outcome"])
    raise AssertionError(out)


def ran(*words, **options):
    done = subprocess.run(command(*words, **options), capture_output=True, text=True, timeout=180)
    return done.stdout + done.stderr


def run_of(out):
    return next(event["run"] for event in events(out) if event.get("event") == "started")


def answers(mode):
    with agent(mode):
        output = ended(ran(*ASK))
    assert output["completed_capabilities"] == ["research"] and "The moon raises them. You said: research tides" in output["answer"], output


def fails(mode, why):
    with agent(mode):
        output = ended(ran(*ASK))
    assert output["completed_capabilities"] == [] and why in output["answer"], output


def has_no_such_model():
    with agent("plain"):
        out = ran(*ASK, model="sea-2")
    assert "set `model` to one of sea-1" in out, out


def beginning(**options):
    begun.write_text("")
    process = subprocess.Popen(command(*ASK, **options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not begun.read_text():
        assert time.monotonic() < until and process.poll() is None, process.communicate()
        time.sleep(0.1)
    return process


def noted(text):
    until = time.monotonic() + 10
    while text not in begun.read_text():
        assert time.monotonic() < until, begun.read_text()
        time.sleep(0.1)


def we_are_killed(mode, expected):
    with agent(mode):
        process = beginning()
        process.kill()
        out, _ = process.communicate()
        output = ended(ran("runs", "resume", run_of(out), "--json"))
    assert output["completed_capabilities"] == ["research"], output
    assert begun.read_text().replace("cancelled", "") == expected, begun.read_text()


def a_person_is_asked_first():
    """An agent that must not be called twice."""
    with agent("slowly"):
        process = beginning(more="once = true\n")
        process.kill()
        out, _ = process.communicate()
        resumed = ran("runs", "resume", run_of(out), "--json", more="once = true\n")
    assert "ended" not in [event.get("event") for event in events(resumed)] and "oceanographer" in resumed, resumed
    assert begun.read_text().replace("cancelled", "") == "x", begun.read_text()


def they_are_killed():
    with agent("slowly"):
        process = beginning()
    with agent("slowly"):
        out, err = process.communicate(timeout=240)
    output = ended(out + err)
    assert output["completed_capabilities"] == ["research"], output
    assert begun.read_text() == "xx", f"it kept nothing, so it was asked again, once: {begun.read_text()}"


def we_cancel():
    """Cancelling the run here closes the connection, which stops the agent."""
    with agent("slowly"):
        process = beginning()
        run = next(json.loads(line)["run"] for line in process.stdout if line.startswith("{") and json.loads(line).get("event") == "started")
        cancelled = ran("runs", "cancel", run)
        out, err = process.communicate(timeout=60)
        assert '"cancelled"' in out, (cancelled, out, err)
        noted("cancelled")


for name, test in {
    "answers": lambda: answers("plain"),
    "answers without streams": lambda: answers("whole"),
    "fails": lambda: fails("failing", "it hurts"),
    "fails in its stream": lambda: fails("failing-late", "it hurts"),
    "breaks off": lambda: fails("breaking", "before the end of its answer"),
    "has no such model": has_no_such_model,
    "we are killed": lambda: we_are_killed("slowly", "xx"),
    "we are killed, and it knows the key": lambda: we_are_killed("keeping", "x"),
    "we are killed, and a person is asked": a_person_is_asked_first,
    "they are killed": they_are_killed,
    "we cancel": we_cancel,
}.items():
    test()
    print("ok", name, flush=True)
