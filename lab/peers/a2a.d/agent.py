"""An agent written with `a2a-sdk`: `agent.py PORT MODE [GRPC_PORT]`. It keeps its tasks in memory only."""
import asyncio
import json
import os
import sys

import grpc
import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, a2a_pb2_grpc
from starlette.applications import Starlette

port, mode = int(sys.argv[1]), sys.argv[2]


class Oceanographer(AgentExecutor):
    async def execute(self, context, event_queue):
        task = context.current_task
        is_new = task is None
        if is_new:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        request = context.get_user_input()
        if mode == "asking" and is_new:
            return await updater.requires_input(new_text_message("Which sea?", task_id=task.id, context_id=task.context_id))
        if mode == "failing":
            return await updater.failed(new_text_message("it hurts", task_id=task.id, context_id=task.context_id))
        if mode == "rejecting":
            return await updater.reject(new_text_message("not my field", task_id=task.id, context_id=task.context_id))
        if mode.startswith("slowly"):
            # How often it began is seen from outside.
            with open(os.environ["BEGUN"], "a") as begun:
                begun.write("x")
            await asyncio.sleep(5)
        await updater.add_artifact([new_text_part(f"The moon raises them. You said: {request}")], name="answer")
        await updater.complete()

    async def cancel(self, context, event_queue):
        with open(os.environ["BEGUN"], "a") as begun:
            begun.write("cancelled")
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


grpc_port = int(sys.argv[3]) if len(sys.argv) > 3 else None
binding = "HTTP+JSON" if mode.endswith("resting") else "JSONRPC"
place = AgentInterface(url=f"http://localhost:{port}/", protocol_binding=binding, protocol_version="1.0")
if grpc_port is not None:
    place = AgentInterface(url=f"localhost:{grpc_port}", protocol_binding="GRPC", protocol_version="1.0")
card = AgentCard(
    name="Oceanographer",
    description="Knows all about the sea",
    version="1.0.0",
    supported_interfaces=[place],
    capabilities=AgentCapabilities(streaming=not mode.endswith("polled")),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[AgentSkill(id="research", name="Research", description="Finds out about the sea", tags=["sea"])],
)
handler = DefaultRequestHandler(agent_executor=Oceanographer(), task_store=InMemoryTaskStore(), agent_card=card)
routes = create_agent_card_routes(card)
routes += create_rest_routes(handler) if binding == "HTTP+JSON" else create_jsonrpc_routes(handler, "/")
app = Starlette(routes=routes)


class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        if grpc_port is not None:
            self.grpc = grpc.aio.server()
            a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), self.grpc)
            self.grpc.add_insecure_port(f"127.0.0.1:{grpc_port}")
            await self.grpc.start()
        print(json.dumps({"url": f"http://127.0.0.1:{port}"}), flush=True)


Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning")).run()
