"""From nothing to the first step of a process, without a checkpointer, and to its end; the medians of some processes."""
import json, statistics, subprocess, sys, time

STARTS = 1 if "quick" in sys.argv else 5
HELLO = """
from typing import TypedDict
from langgraph.graph import END, START, StateGraph
class State(TypedDict):
    n: int
graph = StateGraph(State)
graph.add_node("hello", lambda s: {"n": s["n"] + 1})
graph.add_edge(START, "hello")
graph.add_edge("hello", END)
assert graph.compile().invoke({"n": 0})["n"] == 1
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")), flush=True)
"""

times, whole_times, peaks = [], [], []
for _ in range(STARTS):
    begun = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-c", HELLO], stdout=subprocess.PIPE)
    peaks.append(int(child.stdout.readline()) / 1024)
    times.append((time.perf_counter() - begun) * 1e3)
    assert child.wait() == 0
    whole_times.append((time.perf_counter() - begun) * 1e3)
medians = [statistics.median(all) for all in (times, whole_times, peaks)]
print(json.dumps(dict(zip(("cold_start_ms", "cold_process_ms", "cold_start_rss_mb"), medians))))
