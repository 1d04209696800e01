"""An agent that answers OpenAI's chat completions: `agent.py PORT MODE`. Its replies are made of the types of OpenAI's SDK; it keeps nothing on disk."""
import asyncio
import json
import os
import sys
import time

import uvicorn
from openai.types import Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

port, mode = int(sys.argv[1]), sys.argv[2]
SLOW_S = 5
# The work for each idempotency key, which is done once in the mode `keeping`.
works = {}


def note(text):
    """What it began is seen from outside."""
    with open(os.environ["BEGUN"], "a") as begun:
        begun.write(text)


def chunk(delta, finish_reason=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    made = ChatCompletionChunk.model_validate({"id": "c1", "created": int(time.time()), "model": "sea-1", "object": "chat.completion.chunk", "choices": [choice]})
    return f"data: {made.model_dump_json(exclude_unset=True)}\n\n"


async def work():
    note("x")
    await asyncio.sleep(SLOW_S)


async def pieces(said, key):
    yield chunk({"role": "assistant", "content": ""})
    try:
        if mode == "slowly":
            await work()
        if mode == "keeping":
            if key not in works:
                works[key] = asyncio.ensure_future(work())
            await asyncio.shield(works[key])
    except asyncio.CancelledError:
        note("cancelled")
        raise
    for piece in ["The moon ", "raises them. ", f"You said: {said}"]:
        yield chunk({"content": piece})
        if mode == "breaking":
            return
    if mode == "failing-late":
        yield 'data: {"error": {"message": "it hurts", "type": "server_error"}}\n\n'
        return
    yield chunk({}, "stop")
    yield "data: [DONE]\n\n"


async def completions(request):
    asked = await request.json()
    assert asked["model"] == "sea-1" and request.headers["authorization"] == "Bearer sesame", asked
    if mode == "failing":
        return JSONResponse({"error": {"message": "it hurts", "type": "invalid_request_error", "param": None, "code": None}}, status_code=400)
    said, key = asked["messages"][-1]["content"], request.headers["idempotency-key"]
    if mode == "whole":
        message = {"role": "assistant", "content": f"The moon raises them. You said: {said}"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        made = ChatCompletion.model_validate({"id": "c1", "created": int(time.time()), "model": "sea-1", "object": "chat.completion", "choices": [choice]})
        return JSONResponse(json.loads(made.model_dump_json()))
    return StreamingResponse(pieces(said, key), media_type="text/event-stream")


async def models(request):
    listed = Model(id="sea-1", created=0, object="model", owned_by="lab")
    return JSONResponse({"object": "list", "data": [listed.model_dump()]})


app = Starlette(routes=[Route("/v1/models", models), Route("/v1/chat/completions", completions, methods=["POST"])])


class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(json.dumps({"url": f"http://127.0.0.1:{port}"}), flush=True)


Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning")).run()
