"""`@langchain/langgraph-sdk` from npm against `baton serve`: `javascript.py BATON FOLDER`."""
import subprocess
import sys
from pathlib import Path

from serving import serving

baton, folder = sys.argv[1], Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
with serving(baton, folder) as url:
    done = subprocess.run(["node", "client.mjs", url], cwd="target/peers/langgraph-js", timeout=120)
sys.exit(done.returncode)
