"""Runs the LangServe examples of the guide and the one of the README: `guide.py BATON FOLDER`. Only the ports differ, because those may be taken."""
import os
import re
import sys
from pathlib import Path

from guide_examples import Examples, free_port, listening_agent, run, run_all
from processes import started

baton, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
(folder / "config" / "baton").mkdir(parents=True, exist_ok=True)
examples = Examples("teams.md")
readme = Path(__file__).parents[3].joinpath("README.md").read_text()


def environment(config):
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


def call_baton():
    script = Path(__file__).with_name("agent.script")
    command = [baton, "--script", script, "--db", folder / "readme.db", "serve", "--port", "0", "--json"]
    with started(command, folder / "serve.log") as ready:
        out, _ = run([sys.executable, "-c", examples.block_with("python", "RemoteRunnable(", "http://127.0.0.1:8080", ready["url"])])
        [shown] = re.findall(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
        assert "http://127.0.0.1:8080" in shown, shown
        short, _ = run([sys.executable, "-c", shown.replace("http://127.0.0.1:8080", ready["url"])])
    lines = out.splitlines()
    assert "moon" in lines[0] and "now: auto" in lines, out
    assert "moon" in short, short


def use_an_agent():
    port = str(free_port())
    with listening_agent(examples.block_with("python", "add_routes(", "9001", port), port):
        lines = [line[2:] for line in examples.block("console", "RESEARCHER_SERVICE_URL=http").splitlines() if "SERVICE_URL=" in line]
        out, err = run(["bash", "-c", examples.replaced(lines[0], "9001", port)], env=environment('model = "extract"\n'))
        assert f"**research** (researcher at localhost:{port}): done" in out and f"researcher at localhost:{port} (research)" in err, (out, err)
        config = examples.block_with("toml", "[agents.", "9001", port)
        out, err = run([baton, "ask", "--flow", "supervise", "research tides"], env=environment('model = "extract"\n' + config))
        assert f"**research** (oceanographer at localhost:{port}): done" in out and f"oceanographer at localhost:{port} (research)" in err, (out, err)


run_all([call_baton, use_an_agent])
