"""A thousand runs of ten steps of 50 ms at once, without a checkpointer: nothing is durable here."""
import asyncio, json, sys, time
from typing import TypedDict
from langgraph.graph import END, START, StateGraph

RUNS, STEPS = (20, 2) if "quick" in sys.argv else (1000, 10)


class State(TypedDict):
    n: int


async def nap(s):
    await asyncio.sleep(0.05)
    return {"n": s["n"] + 1}


graph = StateGraph(State)
graph.add_node("nap", nap)
graph.add_edge(START, "nap")
graph.add_conditional_edges("nap", lambda s: END if s["n"] >= STEPS else "nap", ["nap", END])
app = graph.compile()


async def one():
    assert (await app.ainvoke({"n": 0}, {"recursion_limit": STEPS + 10}))["n"] == STEPS


async def main():
    begun = time.perf_counter()
    await asyncio.gather(*[one() for _ in range(RUNS)])
    return time.perf_counter() - begun


seconds = asyncio.run(main())
peak_kb = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"runs1000_ms": seconds * 1e3, "runs1000_rss_mb": peak_kb / 1024}))
