"""Runs the examples of guide/src/a2a.md: `guide.py BATON FOLDER`. Only the ports differ, because those may be taken."""
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

from processes import started
from serving import free_port

baton, folder = sys.argv[1], Path(sys.argv[2]).resolve()
folder.mkdir(parents=True, exist_ok=True)
guide = Path(__file__).parents[3].joinpath("guide", "src", "a2a.md").read_text()
blocks = re.findall(r"^```(\w+)\n(.*?)^```$", guide, re.DOTALL | re.MULTILINE)


def the(language, words):
    found = [text for kind, text in blocks if kind == language and words in text]
    assert len(found) == 1, f"guide/src/a2a.md: {len(found)} {language} blocks have {words!r} in them"
    return found[0]


def call_baton():
    command = [baton, "--script", Path(__file__).with_name("agent.script"), "--db", folder / "guide.db", "serve", "--port", "0", "--json"]
    with started(command, folder / "serve.log") as said:
        text = the("python", "create_client(").replace("http://127.0.0.1:8080", said["url"])
        assert said["url"] in text, text
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "artifact_update" in done.stdout and "moon" in done.stdout, done.stdout + done.stderr


def use_an_agent():
    port = str(free_port())
    agent = subprocess.Popen([sys.executable, "-c", the("python", "uvicorn.run(").replace("9001", port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while socket.socket().connect_ex(("127.0.0.1", int(port))) != 0:
            assert time.monotonic() < until and agent.poll() is None, "the agent does not listen"
            time.sleep(0.05)
        config = folder / "baton.toml"
        config.write_text('model = "extract"\n' + the("toml", "[agents.").replace("9001", port))
        words = the("console", "supervise").split("baton ", 1)[1].strip()
        done = subprocess.run(f'"{baton}" --config "{config}" --db "{folder}/team.db" {words}', shell=True, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and "The moon raises them, twice a day." in done.stdout, done.stdout + done.stderr
    finally:
        agent.kill()
        agent.wait()


for test in [call_baton, use_an_agent]:
    test()
    print("ok", test.__name__, flush=True)
