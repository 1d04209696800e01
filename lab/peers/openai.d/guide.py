"""Runs the examples of the guide (other-clients.md): `guide.py BATON FOLDER`. Only the addresses differ, because the ports may be taken."""
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "langserve.d"))
from guide_examples import Examples, free_port, listening_agent, run as run_program  # noqa: E402
from processes import started  # noqa: E402

baton, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
examples = Examples("other-clients.md")
EXPECTED = {"python": ["Tides are caused by the moon", "Your name is Ada.", "Tides are caused by the moon"], "javascript": ["Tides are caused by the moon"] * 2}
command = [baton, "--script", Path(__file__).with_name("agent.script"), "--db", folder / "guide.db", "serve", "--port", "0", "--json"]
with started(command, folder / "serve.log") as serving:
    for language, expected in EXPECTED.items():
        # Servers are run below and by lab/peers/react.
        found = [text for kind, text in examples.blocks if kind == language and "port=9002" not in text and "listen(" not in text]
        assert len(found) == len(expected), f"guide/src/other-clients.md has {len(found)} {language} blocks"
        for number, (text, answer) in enumerate(zip(found, expected)):
            assert "http://127.0.0.1:8080" in text, text
            text = text.replace("http://127.0.0.1:8080", serving["url"])
            if language == "python":
                run = [sys.executable, "-c", text]
            else:
                # Modules are found beside the script.
                path = Path(os.environ["BATON_NODE_MODULES"]) / f"guide{number}.mjs"
                path.write_text(text)
                run = ["node", str(path)]
            done = subprocess.run(run, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0 and answer in done.stdout, f"{text}\n{done.stdout}\n{done.stderr}"
            print("ok", language, number + 1, flush=True)

port = str(free_port())
with listening_agent(examples.block_with("python", "uvicorn.run(", "9002", port), port):
    config = folder / "baton.toml"
    config.write_text('model = "extract"\n' + examples.block_with("toml", "[agents.", "9002", port))
    words = examples.block("console", "supervise").split("baton ", 1)[1].strip()
    out, _ = run_program(f'"{baton}" --config "{config}" --db "{folder}/team.db" {words}', shell=True)
    assert "The moon raises them, twice a day." in out, out
    print("ok an agent of the guide", flush=True)
