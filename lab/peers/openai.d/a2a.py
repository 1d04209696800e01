"""The official A2A client against `baton serve`, over JSON-RPC and HTTP+JSON: `a2a.py BATON FOLDER`."""
import asyncio
import sys
from pathlib import Path
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb

sys.path.insert(0, str(Path(__file__).parent.parent / "langserve.d"))
from processes import started  # noqa: E402
from tokens import token  # noqa: E402

baton, folder = sys.argv[1], Path(sys.argv[2])
script = Path(__file__).with_name("agent.script").resolve()


def message(text, **more):
    said = pb.Message(message_id=str(uuid4()), role=pb.ROLE_USER, parts=[pb.Part(text=text)], **more)
    return pb.SendMessageRequest(message=said)


async def drive(binding, http, url):
    async def agent(flow, streaming):
        card = await A2ACardResolver(http, f"{url}/a2a/{flow}").get_agent_card()
        return ClientFactory(ClientConfig(httpx_client=http, streaming=streaming, supported_protocol_bindings=[binding])).create(card)

    async def all_of(going):
        return [event async for event in going]

    direct = await agent("direct", True)
    events = await all_of(direct.send_message(message("what are tides?")))
    kinds = [event.WhichOneof("payload") for event in events]
    text = "".join(part.text for event in events if event.WhichOneof("payload") == "artifact_update" for part in event.artifact_update.artifact.parts)
    assert kinds[0] == "task" and text == "Tides are caused by the moon.", events
    assert events[-1].status_update.status.state == pb.TASK_STATE_COMPLETED, events[-1]
    task = await direct.get_task(pb.GetTaskRequest(id=events[0].task.id))
    assert task.artifacts[0].parts[0].text == "Tides are caused by the moon.", task
    whole = await all_of((await agent("search", False)).send_message(message("what are tides?")))
    assert whole[-1].task.artifacts[0].parts[1].data.struct_value["sources"][0]["address"] == "https://sea.example/tides", whole
    failed = await all_of((await agent("direct", False)).send_message(message("this fails")))
    assert failed[-1].task.status.state == pb.TASK_STATE_FAILED and "nobody thinks" in str(failed[-1].task.status.message), failed

    research = await agent("research", False)
    request = message("what are tides?")
    request.metadata.update({"baton": {"approve": True}})
    asked = (await all_of(research.send_message(request)))[-1].task
    assert asked.status.state == pb.TASK_STATE_INPUT_REQUIRED and "May I answer" in str(asked.status.message), asked
    done = (await all_of(research.send_message(message("yes", task_id=asked.id, context_id=asked.context_id))))[-1].task
    assert done.id == asked.id and done.status.state == pb.TASK_STATE_COMPLETED, done

    # Lost in the middle, taken up again, and cancelled.
    search = await agent("search", True)
    going = search.send_message(message("slow tides"))
    first = await anext(going)
    await going.aclose()
    again = search.subscribe(pb.SubscribeToTaskRequest(id=first.task.id))
    assert (await anext(again)).task.id == first.task.id
    stopped = await search.cancel_task(pb.CancelTaskRequest(id=first.task.id))
    assert stopped.status.state == pb.TASK_STATE_CANCELED, stopped
    rest = await all_of(again)
    assert rest[-1].status_update.status.state == pb.TASK_STATE_CANCELED, rest
    for way in [lambda: search.get_task(pb.GetTaskRequest(id="nothing")), lambda: search.cancel_task(pb.CancelTaskRequest(id=first.task.id))]:
        try:
            await way()
            raise AssertionError("it went well")
        except Exception as error:
            assert "Task" in type(error).__name__, repr(error)
    print("ok", binding, flush=True)


async def main(url, key):
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60) as http:
        for binding in ["JSONRPC", "HTTP+JSON"]:
            await drive(binding, http, url)


key = token(baton, folder / "serve.db", "ada")
with started([baton, "--script", script, "--db", folder / "serve.db", "serve", "--port", "0", "--json"], folder / "serve.log") as said:
    asyncio.run(main(said["url"], key))
