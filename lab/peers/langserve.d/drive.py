"""Baton's supervisor with the third-party agents of `server.py`: `drive.py BATON FOLDER`. No model is needed: the words of the request are the plan."""
import json
import subprocess
import sys
from pathlib import Path

from processes import started

baton, folder = sys.argv[1], Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)


def ask(url, path):
    config = folder / f"{path}.toml"
    config.write_text(
        f'model = "extract"\n[team]\nagent_s_max = 2\nattempts_max = 3\nretries_max = 1\n[agents.researcher]\nurl = "{url}"\npath = "{path}"\ncapabilities = ["research"]\n'
    )
    command = [baton, "--config", config, "--db", folder / "drive.db", "ask", "--flow", "supervise", "--json", "research tides"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    for line in reversed(done.stdout.splitlines()):
        event = json.loads(line)
        if event.get("event") == "ended":
            return event["outcome"]["output"] if "output" in event["outcome"] else event["outcome"]
    raise AssertionError(done.stdout + done.stderr)


expected = {
    "graph": (["research"], "**research** (researcher at 127.0.0.1:{port}): done"),
    "prose": (["research"], "**research** (researcher at 127.0.0.1:{port}): done"),
    "flaky": (["research"], "**research** (researcher at 127.0.0.1:{port}): done"),
    "fails": ([], "500: Internal Server Error"),
    "hangs": ([], "did not answer"),
    "nonsense": ([], "asked 2 times and is not done"),
    "wrong": ([], 'it says that it completed "send_mail"'),
    "nothing": ([], "404"),
}
with started([sys.executable, Path(__file__).with_name("server.py")], folder / "server.log") as serving:
    for path, (completed, words) in expected.items():
        output = ask(serving["url"], path)
        assert output["completed_capabilities"] == completed and output["next"] == "FINISH", (path, output)
        assert words.replace("{port}", serving["url"].rsplit(":", 1)[1]) in output["answer"], (path, output["answer"])
        if path == "graph":
            assert output["context"]["python"] is True, output["context"]
            kinds = [turn["role"] for turn in output["messages"]]
            assert kinds == ["user", "assistant", "assistant"], kinds
        print("ok", path, flush=True)
