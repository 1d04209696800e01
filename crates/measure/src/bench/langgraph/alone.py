"""One durable step of one run: the SQLite checkpointer, every step written before the next."""
import json, sqlite3, sys, time
from typing import TypedDict
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

STEPS = 5 if "quick" in sys.argv else 200


class State(TypedDict):
    n: int


graph = StateGraph(State)
graph.add_node("work", lambda s: {"n": s["n"] + 1})
graph.add_edge(START, "work")
graph.add_conditional_edges("work", lambda s: END if s["n"] >= STEPS else "work", ["work", END])
app = graph.compile(checkpointer=SqliteSaver(sqlite3.connect("peer.db", check_same_thread=False)))


def one(thread):
    config = {"recursion_limit": STEPS + 10, "configurable": {"thread_id": thread}}
    begun = time.perf_counter()
    assert app.invoke({"n": 0}, config, durability="sync")["n"] == STEPS
    return time.perf_counter() - begun


one("warm")
print(json.dumps({"step_durable_alone_us": one("measured") * 1e6 / STEPS}))
