"""Graphs for `langgraph dev`, as a third party would write them."""
import asyncio
import json
import os
from typing import Annotated, Any

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt
from typing_extensions import TypedDict


class State(TypedDict):
    messages: Annotated[list[BaseMessage], add_messages]
    next: str
    context: dict[str, Any]


def contract():
    summary = {"topic": "Tides", "summary": "The moon does it.", "key_points": ["Twice a day"], "sources": ["https://sea.example"]}
    return json.dumps({"completed_capability": "research", "data": {"research_summary": summary, "tool_used": True}})


async def answer(state):
    return {"messages": [AIMessage(contract())], "context": {**state["context"], "python": True}}


async def asks(state):
    sea = interrupt({"question": "Which sea?"})
    return {"messages": [AIMessage(contract())], "context": {**state["context"], "sea": sea}}


async def fails(state):
    raise ValueError("it hurts")


async def slow(state):
    # How often it began is seen from outside.
    with open(os.environ["BEGUN"], "a") as begun:
        begun.write("x")
    try:
        await asyncio.sleep(6)
    except asyncio.CancelledError:
        with open(os.environ["BEGUN"], "a") as begun:
            begun.write("cancelled")
        raise
    return await answer(state)


def graph(node):
    return StateGraph(State).add_node("node", node).add_edge(START, "node").add_edge("node", END).compile()


agent, asking, failing, slowly = graph(answer), graph(asks), graph(fails), graph(slow)
