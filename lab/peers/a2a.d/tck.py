"""A2A's TCK (https://github.com/a2aproject/a2a-tck, branch 1.0-dev) against `baton serve`: `tck.py BATON FOLDER`. BATON_A2A_TCK names a checkout of it.
Ends with the number of tests that passed, failed and were skipped; failures that tck_exceptions.json explains are counted apart."""
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

from processes import started

baton, folder, kit = sys.argv[1], Path(sys.argv[2]).resolve(), Path(os.environ["BATON_A2A_TCK"]).resolve()
here = Path(__file__).parent.resolve()
folder.mkdir(parents=True, exist_ok=True)
SCRIPT = """when model answer text~"tck-artifact-text" reply "Generated text content"
when model answer text~"tck-stream-artifact-text" reply "Streamed text content"
when model answer text~"tck-stream-artifact-chunked" reply "chunk-1 chunk-2"
when model answer text~"test-resubscribe-message-id" reply "Slowly." after 10s
when model answer text~"tck-" reply "Hello from TCK"
"""
# The TCK's own receiver of push notifications is on this machine.
(folder / "baton.toml").write_text('[notify]\nnetworks = ["127.0.0.0/8"]\n')
(folder / "tck.script").write_text(SCRIPT + (here / "agent.script").read_text())
exceptions = json.loads((here / "tck_exceptions.json").read_text())
report = folder / "junit.xml"
command = [baton, "--config", folder / "baton.toml", "--script", folder / "tck.script", "--db", folder / "tck.db", "serve", "--port", "0", "--json"]
with started(command, folder / "serve.log") as ready:
    words = ["-q", "--tb=short", "-p", "no:cacheprovider", "-p", "tck_plugin", f"--junitxml={report}", f"--sut-host={ready['url']}", "--webhook-host=127.0.0.1"]
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/compatibility/", *words],
        cwd=kit,
        env={**os.environ, "PYTHONPATH": f"{here}:{kit}"},
        capture_output=True,
        text=True,
        timeout=1_500,
    )
(folder / "tck.txt").write_text(tests.stdout + tests.stderr)
assert report.exists(), tests.stdout[-4000:] + tests.stderr[-4000:]

passed, skipped, expected, wrong, used = 0, [], [], [], set()
for case in xml.etree.ElementTree.parse(report).iter("testcase"):
    name = f"{case.get('classname').removeprefix('tests.compatibility.')}.{case.get('name')}"
    failures = [one for kind in ("failure", "error") for one in case.findall(kind)]
    if failures:
        known = [text for text in exceptions if re.search(text, name)]
        used.update(known)
        why = (failures[0].get("message") or "").splitlines()
        (expected if known else wrong).append(f"{name}: {why[0] if why else ''}")
    elif case.find("skipped") is not None:
        skipped.append(f"{name}: {case.find('skipped').get('message')}")
    else:
        passed += 1
for title, lines in [("skipped", skipped), ("excepted", expected), ("failed", wrong)]:
    print(f"{title}:", *sorted(lines), sep="\n  ")
print(f"{passed} passed, {len(skipped)} skipped, {len(expected)} excepted, {len(wrong)} failed")
unused = set(exceptions) - used
assert not unused, f"tck_exceptions.json names failures that are none: {unused}"
assert passed > 0 and not wrong, "the TCK found something"
