"""One no-op step: a chain of nodes that add one, without a checkpointer, and with the one in memory."""
import json, sys, time, uuid
from typing import TypedDict
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

NODES, RUNS = (10, 2) if "quick" in sys.argv else (100, 20)


class State(TypedDict):
    n: int


def chain(checkpointer):
    graph = StateGraph(State)
    for i in range(NODES):
        graph.add_node(f"n{i}", lambda s: {"n": s["n"] + 1})
        graph.add_edge(f"n{i - 1}" if i else START, f"n{i}")
    graph.add_edge(f"n{NODES - 1}", END)
    return graph.compile(checkpointer=checkpointer)


def step_ns(app):
    best = float("inf")
    for _ in range(RUNS):
        config = {"recursion_limit": NODES + 10, "configurable": {"thread_id": uuid.uuid4().hex}}
        begun = time.perf_counter()
        assert app.invoke({"n": 0}, config)["n"] == NODES
        best = min(best, time.perf_counter() - begun)
    return best * 1e9 / NODES


print(json.dumps({"step_ns": step_ns(chain(None)), "step_memory_saver_ns": step_ns(chain(InMemorySaver()))}))
