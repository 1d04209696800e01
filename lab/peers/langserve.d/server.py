"""LangGraph agents behind LangServe, as a third party would write them. Prints one line of JSON when it listens, and ends with its standard input."""
import asyncio
import json
import os
import socket
import sys
import threading
from typing import Annotated, Any

os.environ["LANGSMITH_TRACING"] = "false"

import uvicorn
from fastapi import FastAPI
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langserve import add_routes
from typing_extensions import TypedDict


class State(TypedDict):
    messages: Annotated[list[BaseMessage], add_messages]
    next: str
    context: dict[str, Any]


def contract(capability):
    summary = {"topic": "Tides", "summary": "The moon does it.", "key_points": ["Twice a day"], "sources": ["https://sea.example"]}
    return json.dumps({"completed_capability": capability, "data": {"research_summary": summary, "tool_used": True}})


tries = {"flaky": 0}


async def answer(state):
    return {"messages": [AIMessage(contract("research"))], "context": {**state["context"], "python": True}}


async def prose(state):
    return {"messages": [AIMessage("Of course! Here it is:\n```json\n" + contract("research") + "\n```\nAnything else?")]}


async def fails(state):
    raise ValueError("it hurts")


async def flaky(state):
    tries["flaky"] += 1
    if tries["flaky"] < 3:
        raise ValueError("not yet")
    return await answer(state)


async def hangs(state):
    await asyncio.sleep(3600)


async def nonsense(state):
    return {"messages": [AIMessage("banana")]}


async def wrong(state):
    return {"messages": [AIMessage(contract("send_mail"))]}


app = FastAPI()
for node in [answer, prose, fails, flaky, hangs, nonsense, wrong]:
    graph = StateGraph(State)
    graph.add_node("agent", node)
    graph.add_edge(START, "agent")
    graph.add_edge("agent", END)
    add_routes(app, graph.compile(), path="/graph" if node is answer else "/" + node.__name__)

door = socket.create_server(("127.0.0.1", 0))
server = uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False))


def leave_with_stdin():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=leave_with_stdin, daemon=True).start()
print(json.dumps({"url": f"http://127.0.0.1:{door.getsockname()[1]}"}), flush=True)
server.run(sockets=[door])
