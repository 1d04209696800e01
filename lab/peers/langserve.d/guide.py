"""Runs the LangServe examples of the guide and the one of the README: `guide.py BATON FOLDER`. Only the ports differ, because those may be taken."""
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

from processes import started

baton, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
(folder / "config" / "baton").mkdir(parents=True, exist_ok=True)
guide = Path(__file__).parents[3].joinpath("guide", "src", "teams.md").read_text()
readme = Path(__file__).parents[3].joinpath("README.md").read_text()
blocks = re.findall(r"^```(\w+)\n(.*?)^```$", guide, re.DOTALL | re.MULTILINE)


def the(language, words):
    found = [text for kind, text in blocks if kind == language and words in text]
    assert len(found) == 1, f"guide/src/teams.md: {len(found)} {language} blocks have {words!r} in them"
    return found[0]


def moved(text, old, new):
    assert old in text, f"guide/src/teams.md no longer contains {old!r}: {text}"
    return text.replace(old, new)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as door:
        return door.getsockname()[1]


def settled(config):
    """A user's own folders, with that configuration."""
    (folder / "config" / "baton" / "baton.toml").write_text(config)
    return {
        **os.environ,
        "PATH": f"{baton.parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_DATA_HOME": str(folder / "data"),
        "BATON_NO_PULL": "1",
    }


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **more)
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout, done.stderr


def call_baton():
    script = Path(__file__).with_name("agent.script")
    command = [baton, "--script", script, "--db", folder / "readme.db", "serve", "--port", "0", "--json"]
    with started(command, folder / "serve.log") as said:
        out, _ = run([sys.executable, "-c", moved(the("python", "RemoteRunnable("), "http://127.0.0.1:8080", said["url"])])
        [shown] = re.findall(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
        short, _ = run([sys.executable, "-c", moved(shown, "http://127.0.0.1:8080", said["url"])])
    lines = out.splitlines()
    assert "moon" in lines[0] and "now: auto" in lines, out
    assert "moon" in short, short


def use_an_agent():
    port = str(free_port())
    agent = subprocess.Popen([sys.executable, "-c", moved(the("python", "add_routes("), "9001", port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while socket.socket().connect_ex(("127.0.0.1", int(port))) != 0:
            assert time.monotonic() < until and agent.poll() is None, "the agent does not listen"
            time.sleep(0.05)
        lines = [line[2:] for line in the("console", "RESEARCHER_SERVICE_URL=http").splitlines() if "SERVICE_URL=" in line]
        out, told = run(["bash", "-c", moved(lines[0], "9001", port)], env=settled('model = "extract"\n'))
        assert f"**research** (researcher at localhost:{port}): done" in out and f"researcher at localhost:{port} (research)" in told, (out, told)
        config = moved(the("toml", "[agents."), "9001", port)
        out, told = run([baton, "ask", "--flow", "supervise", "research tides"], env=settled('model = "extract"\n' + config))
        assert f"**research** (oceanographer at localhost:{port}): done" in out and f"oceanographer at localhost:{port} (research)" in told, (out, told)
    finally:
        agent.kill()
        agent.wait()


for test in [call_baton, use_an_agent]:
    test()
    print("ok", test.__name__, flush=True)
