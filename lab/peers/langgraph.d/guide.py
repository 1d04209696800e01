"""Runs the Python examples of guide/src/langgraph.md: `guide.py BATON FOLDER`. Only the port differs."""
import re
import subprocess
import sys
from pathlib import Path

from serving import serving

baton, folder = sys.argv[1], Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
guide = Path(__file__).parents[3].joinpath("guide", "src", "langgraph.md").read_text()
blocks = re.findall(r"^```python\n(.*?)^```$", guide, re.DOTALL | re.MULTILINE)
assert len(blocks) == 2, f"guide/src/langgraph.md has {len(blocks)} Python examples"
with serving(baton, folder) as url:
    for block in blocks:
        assert "http://127.0.0.1:8080" in block, block
        done = subprocess.run([sys.executable, "-c", block.replace("http://127.0.0.1:8080", url)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and "moon" in done.stdout, done.stdout + done.stderr
        print("ok", block.splitlines()[0], flush=True)
