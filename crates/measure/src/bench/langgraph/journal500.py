"""What the disk holds after 500 steps whose state keeps a 200-byte message from each."""
import json, operator, os, sqlite3, sys
from typing import Annotated, TypedDict
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

STEPS = 20 if "quick" in sys.argv else 500


class State(TypedDict):
    messages: Annotated[list, operator.add]


graph = StateGraph(State)
graph.add_node("read", lambda s: {"messages": ["m" * 200]})
graph.add_edge(START, "read")
graph.add_conditional_edges("read", lambda s: END if len(s["messages"]) >= STEPS else "read", ["read", END])
connection = sqlite3.connect("peer.db", check_same_thread=False)
app = graph.compile(checkpointer=SqliteSaver(connection))
result = app.invoke({"messages": []}, {"recursion_limit": STEPS + 10, "configurable": {"thread_id": "t"}}, durability="sync")
assert len(result["messages"]) == STEPS
connection.commit()
connection.execute("pragma wal_checkpoint(truncate)")
connection.close()
print(json.dumps({"journal500_bytes": sum(os.path.getsize(f) for f in os.listdir(".") if f.startswith("peer.db"))}))
