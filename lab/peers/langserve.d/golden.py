"""Writes down how the real libraries put things as JSON, for crates/wire/tests/langserve: `golden.py FOLDER`.

Every message class of langchain-core in the form LangServe sends it and in the constructor form of `langchain_core.load`, and what a LangServe
server of a LangGraph graph replies at each of its endpoints. Run again when the pins in `lab/peers/langserve` change.
"""
import json
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import httpx
import uvicorn
from fastapi import FastAPI
from langchain_core.load import dumpd
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langserve import add_routes
from langserve.serialization import WellKnownLCSerializer
from typing_extensions import TypedDict

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)

call = {"name": "search", "args": {"q": "tides"}, "id": "call_1", "type": "tool_call"}
blocks = [{"type": "text", "text": "See "}, {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]
messages = {
    "human": HumanMessage("hello", id="h1", name="ada"),
    "human_blocks": HumanMessage(blocks),
    "human_chunk": HumanMessageChunk("hel"),
    "ai": AIMessage("hi", id="a1"),
    "ai_tools": AIMessage(
        "",
        tool_calls=[call],
        invalid_tool_calls=[{"name": "x", "args": "{", "id": "call_2", "error": "no JSON", "type": "invalid_tool_call"}],
        usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
        response_metadata={"model_name": "m", "finish_reason": "tool_calls"},
        additional_kwargs={"refusal": None},
    ),
    "ai_chunk": AIMessageChunk("h", tool_call_chunks=[{"name": "search", "args": '{"q"', "id": "call_1", "index": 0, "type": "tool_call_chunk"}]),
    "system": SystemMessage("be brief"),
    "system_chunk": SystemMessageChunk("be"),
    "tool": ToolMessage("3 hits", tool_call_id="call_1", artifact={"hits": [1, 2, 3]}),
    "tool_error": ToolMessage("gone", tool_call_id="call_1", status="error", name="search"),
    "tool_chunk": ToolMessageChunk("3", tool_call_id="call_1"),
    "function": FunctionMessage("4", name="add"),
    "function_chunk": FunctionMessageChunk("4", name="add"),
    "chat": ChatMessage("ahoy", role="pirate"),
    "chat_chunk": ChatMessageChunk("ah", role="pirate"),
    "remove": RemoveMessage(id="a1"),
}
plain = WellKnownLCSerializer()
golden = {name: {"plain": json.loads(plain.dumps(message)), "constructor": dumpd(message)} for name, message in messages.items()}
(folder / "messages.json").write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n")


class State(TypedDict):
    messages: Annotated[list[BaseMessage], add_messages]
    next: str
    context: dict[str, Any]


async def answer(state: State):
    content = state["messages"][-1].content
    if content == "fail":
        raise ValueError("it hurts")
    return {"messages": [AIMessage("echo: " + content, id="a1")], "context": {"seen": 1}}


graph = StateGraph(State)
graph.add_node("answer", answer)
graph.add_edge(START, "answer")
graph.add_edge("answer", END)
app = FastAPI()
add_routes(app, graph.compile(), path="/graph", config_keys=["configurable", "tags", "metadata", "recursion_limit"])
door = socket.create_server(("127.0.0.1", 0))
server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
threading.Thread(target=server.run, kwargs={"sockets": [door]}, daemon=True).start()
while not server.started:
    time.sleep(0.05)
client = httpx.Client(base_url=f"http://127.0.0.1:{door.getsockname()[1]}", timeout=30)

state = {"messages": [{"type": "human", "content": "hi", "id": "h1"}], "next": "", "context": {"plan": ["research"]}}
failing = {**state, "messages": [{"type": "human", "content": "fail"}]}
requests = {
    "invoke": ("POST", "/graph/invoke", {"input": state, "config": {"tags": [], "metadata": {}, "recursion_limit": 25, "configurable": {}}, "kwargs": {}}),
    "invoke_bare": ("POST", "/graph/invoke", {"input": state}),
    "invoke_fails": ("POST", "/graph/invoke", {"input": failing}),
    "invoke_no_input": ("POST", "/graph/invoke", {}),
    "invoke_wrong_input": ("POST", "/graph/invoke", {"input": {"messages": 3, "next": "", "context": {}}}),
    "invoke_wrong_config": ("POST", "/graph/invoke", {"input": state, "config": {"tags": 3}}),
    "invoke_no_object": ("POST", "/graph/invoke", [1]),
    "invoke_no_json": ("POST", "/graph/invoke", b"{"),
    "batch": ("POST", "/graph/batch", {"inputs": [state, state]}),
    "batch_configs": ("POST", "/graph/batch", {"inputs": [state, state], "config": [{"tags": ["a"]}, {"tags": ["b"]}]}),
    "batch_wrong_configs": ("POST", "/graph/batch", {"inputs": [state, state], "config": [{"tags": ["a"]}]}),
    "batch_empty": ("POST", "/graph/batch", {"inputs": []}),
    "batch_wrong": ("POST", "/graph/batch", {"inputs": 3}),
    "batch_fails": ("POST", "/graph/batch", {"inputs": [state, failing]}),
    "stream": ("POST", "/graph/stream", {"input": state}),
    "stream_fails": ("POST", "/graph/stream", {"input": failing}),
    "stream_wrong": ("POST", "/graph/stream", {"input": {"messages": 3, "next": "", "context": {}}}),
    "stream_log": ("POST", "/graph/stream_log", {"input": state}),
    "stream_log_whole": ("POST", "/graph/stream_log", {"input": state, "diff": False}),
    "stream_log_fails": ("POST", "/graph/stream_log", {"input": failing}),
    "stream_events": ("POST", "/graph/stream_events", {"input": state}),
    "stream_events_fails": ("POST", "/graph/stream_events", {"input": failing}),
    "input_schema": ("GET", "/graph/input_schema", None),
    "output_schema": ("GET", "/graph/output_schema", None),
    "config_schema": ("GET", "/graph/config_schema", None),
    "unknown": ("POST", "/graph/nothing", {}),
    "wrong_method": ("GET", "/graph/invoke", None),
}


def without_prose(value):
    """Descriptions are other people's words, and nothing depends on them."""
    if isinstance(value, dict):
        return {key: without_prose(item) for key, item in value.items() if not (key == "description" and isinstance(item, str))}
    return [without_prose(item) for item in value] if isinstance(value, list) else value


replies = {}
for name, (method, path, body) in requests.items():
    sent = {"content": body} if isinstance(body, bytes) else {} if body is None else {"json": body}
    with client.stream(method, path, **sent) as response:
        read = b""
        try:
            for piece in response.iter_raw():
                read += piece
        except httpx.RemoteProtocolError:
            pass  # after an error in a stream the line is cut
    kind = response.headers.get("content-type", "")
    text = json.loads(read) if kind.startswith("application/json") else read.decode()
    replies[name] = {"request": body.decode() if isinstance(body, bytes) else body, "status": response.status_code, "type": kind, "body": without_prose(text)}
(folder / "server.json").write_text(json.dumps(replies, indent=1) + "\n")
