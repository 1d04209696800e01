from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict


class State(TypedDict):
    x: int


graph = StateGraph(State).add_node("inc", lambda state: {"x": state["x"] + 1}).add_edge(START, "inc").add_edge("inc", END).compile()
