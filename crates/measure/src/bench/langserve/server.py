"""The same trivial graph behind LangServe, one uvicorn worker. Prints its address, and ends with its standard input."""
import os
import socket
import sys
import threading

os.environ["LANGSMITH_TRACING"] = "false"

import uvicorn
from fastapi import FastAPI
from langgraph.graph import END, START, StateGraph
from langserve import add_routes
from typing_extensions import TypedDict


class State(TypedDict):
    x: int


async def inc(state: State):
    return {"x": state["x"] + 1}


graph = StateGraph(State)
graph.add_node("inc", inc)
graph.add_edge(START, "inc")
graph.add_edge("inc", END)
app = FastAPI()
add_routes(app, graph.compile(), path="/graph")


def leave_with_stdin():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=leave_with_stdin, daemon=True).start()
door = socket.create_server(("127.0.0.1", 0), backlog=1024)
# As asyncio does for sockets it makes itself; without it every answer waits 40 ms.
door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
print(f"listening {door.getsockname()[1]}", flush=True)
# LangServe greets the terminal when it starts; nobody reads on.
sys.stdout = open(os.devnull, "w")
uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False)).run(sockets=[door])
