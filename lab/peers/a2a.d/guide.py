"""Runs the examples of guide/src/a2a.md: `guide.py BATON FOLDER`. Only the ports differ, because those may be taken."""
import sys
from pathlib import Path

from guide_examples import Examples, free_port, listening_agent, run, run_all
from processes import started

baton, folder = sys.argv[1], Path(sys.argv[2]).resolve()
folder.mkdir(parents=True, exist_ok=True)
examples = Examples("a2a.md")


def call_baton():
    command = [baton, "--script", Path(__file__).with_name("agent.script"), "--db", folder / "guide.db", "serve", "--port", "0", "--json"]
    with started(command, folder / "serve.log") as ready:
        out, _ = run([sys.executable, "-c", examples.block_with("python", "create_client(", "http://127.0.0.1:8080", ready["url"])])
    assert "artifact_update" in out and "moon" in out, out


def use_an_agent():
    port = str(free_port())
    with listening_agent(examples.block_with("python", "uvicorn.run(", "9001", port), port):
        config = folder / "baton.toml"
        config.write_text('model = "extract"\n' + examples.block_with("toml", "[agents.", "9001", port))
        words = examples.block("console", "supervise").split("baton ", 1)[1].strip()
        out, _ = run(f'"{baton}" --config "{config}" --db "{folder}/team.db" {words}', shell=True)
        assert "The moon raises them, twice a day." in out, out


run_all([call_baton, use_an_agent])
