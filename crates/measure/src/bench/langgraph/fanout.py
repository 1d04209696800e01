"""A hundred tasks sent out at once and joined, without a checkpointer."""
import json, operator, sys, time
from typing import Annotated, TypedDict
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

RUNS = 2 if "quick" in sys.argv else 30
FAN = 100


class State(TypedDict):
    out: Annotated[list, operator.add]
    total: int


graph = StateGraph(State)
graph.add_node("work", lambda s: {"out": [s["i"]]})
graph.add_node("join", lambda s: {"total": len(s["out"])})
graph.add_conditional_edges(START, lambda s: [Send("work", {"i": i}) for i in range(FAN)], ["work"])
graph.add_edge("work", "join")
graph.add_edge("join", END)
app = graph.compile()

best = float("inf")
for _ in range(RUNS):
    begun = time.perf_counter()
    assert app.invoke({"out": []})["total"] == FAN
    best = min(best, time.perf_counter() - begun)
print(json.dumps({"fanout100_us": best * 1e6}))
