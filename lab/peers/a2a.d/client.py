"""The client of `a2a-sdk` against `baton serve`, whose users have tokens, over all bindings: `client.py BATON FOLDER`."""
import asyncio
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from uuid import uuid4

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers import get_artifact_text, get_message_text
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils import errors
from google.protobuf.json_format import MessageToDict, ParseDict
from processes import started
from tokens import token

baton, folder = sys.argv[1], Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
(folder / "baton.toml").write_text('[notify]\nnetworks = ["127.0.0.1"]\n')
command = [baton, "--config", folder / "baton.toml", "--script", Path(__file__).with_name("agent.script"), "--db", folder / "serve.db", "serve", "--port", "0", "--json"]
TIDES = "Tides are caused by the moon"
BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]


class Bearer:
    """A token with every call of gRPC. The library takes an interceptor for one kind of call only."""

    def __init__(self, key):
        self.key = key

    def with_token(self, details):
        return details._replace(metadata=[*(details.metadata or []), ("authorization", f"Bearer {self.key}")])


class BearerOfCalls(Bearer, grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(self, proceed, details, request):
        return await proceed(self.with_token(details), request)


class BearerOfStreams(Bearer, grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(self, proceed, details, request):
        return await proceed(self.with_token(details), request)


def channels(key):
    """For addresses as the card names them."""
    return lambda url: grpc.aio.insecure_channel(url.removeprefix("http://"), interceptors=[BearerOfCalls(key), BearerOfStreams(key)])


def request(text, task="", context="", message_id="", at_once=False, push=None, **baton_options):
    message = Message(message_id=message_id or str(uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)], task_id=task, context_id=context)
    made = SendMessageRequest(message=message)
    if at_once:
        made.configuration.return_immediately = True
    if push is not None:
        made.configuration.task_push_notification_config.CopyFrom(push)
    if baton_options:
        ParseDict({"baton": baton_options}, made.metadata)
    return made


class Client:
    """One user over one binding, with streams and without."""

    def __init__(self, url, key, binding, path=""):
        self.url, self.key, self.binding, self.path = url, key, binding, path

    async def __aenter__(self):
        self.http = httpx.AsyncClient(headers={"Authorization": f"Bearer {self.key}"}, timeout=60)
        self.card = await A2ACardResolver(self.http, self.url + self.path).get_agent_card()
        make = lambda streaming: ClientFactory(ClientConfig(streaming=streaming, httpx_client=self.http, grpc_channel_factory=channels(self.key), supported_protocol_bindings=[self.binding])).create(self.card)
        self.streams, self.plain = make(True), make(False)
        return self

    async def __aexit__(self, *_):
        await self.http.aclose()

    async def send(self, *words, **more):
        events = [one async for one in self.plain.send_message(request(*words, **more))]
        assert len(events) == 1 and events[0].HasField("task"), events
        return events[0].task

    async def get(self, task, **more):
        return await self.plain.get_task(GetTaskRequest(id=task, **more))

    async def until(self, task, state):
        for _ in range(400):
            found = await self.get(task)
            if found.status.state == state:
                return found
            await asyncio.sleep(0.05)
        raise AssertionError(f"{task} is {found.status} and not {state}")


def answer(task):
    return "".join(get_artifact_text(artifact) for artifact in task.artifacts if artifact.artifact_id == "answer")


async def refused(kind, way):
    try:
        result = way
        if hasattr(way, "__aiter__"):
            result = [one async for one in way]
        else:
            result = await way
    except kind as error:
        return str(error)
    raise AssertionError(f"it went well: {result}")


async def card(ada, bob):
    skills = {skill.id for skill in ada.card.skills}
    assert {"auto", "direct", "search"} <= skills and ada.card.capabilities.streaming and ada.card.capabilities.push_notifications, ada.card
    assert [one.protocol_binding for one in ada.card.supported_interfaces] == BINDINGS, ada.card
    extended = await ada.plain.get_extended_agent_card(GetExtendedAgentCardRequest())
    assert extended.name == ada.card.name
    # Anybody may read the public one, and it states that a token is needed.
    async with httpx.AsyncClient() as nobody:
        found = await A2ACardResolver(nobody, ada.url).get_agent_card()
        assert found.security_requirements and (await nobody.post(f"{ada.url}/a2a", json={})).status_code == 401
    async with Client(ada.url, ada.key, ada.binding, "/a2a/direct") as direct:
        assert [skill.id for skill in direct.card.skills] == ["direct"]
        assert answer(await direct.send("what are tides?")).startswith(TIDES)


async def send(ada, bob):
    done = await ada.send("what are tides?", flow="direct", message_id="m-1" + ada.binding)
    assert done.status.state == TaskState.TASK_STATE_COMPLETED and answer(done).startswith(TIDES), done
    assert done.history[0].message_id == "m-1" + ada.binding and done.history[0].task_id == done.id, done
    again = await ada.send("what are tides?", flow="direct", message_id="m-1" + ada.binding)
    assert again.id == done.id
    assert (await bob.send("what are tides?", flow="direct", message_id="m-1" + ada.binding)).id != done.id
    first = await ada.send("my name is Ada", flow="direct")
    second = await ada.send("what is my name?", context=first.context_id, flow="direct")
    assert second.context_id == first.context_id and second.id != first.id and "Your name is Ada." in answer(second), answer(second)
    named = await ada.send("what are tides?", context="my own name", flow="direct")
    assert named.context_id == "my own name", named
    cited = await ada.send("what are tides?", flow="search")
    sources = next(artifact for artifact in cited.artifacts if artifact.artifact_id == "sources")
    assert MessageToDict(sources.parts[0])["data"]["address"] == "https://sea.example/tides", sources


async def stream(ada, bob):
    events = [one async for one in ada.streams.send_message(request("what are tides?", flow="direct"))]
    kinds = [one.WhichOneof("payload") for one in events]
    assert kinds[0] == "task" and events[0].task.status.state == TaskState.TASK_STATE_SUBMITTED, events[0]
    pieces = [one.artifact_update for one in events if one.artifact_update.artifact.artifact_id == "answer"]
    assert len(pieces) > 3 and not pieces[0].append and all(piece.append for piece in pieces[1:]) and pieces[-1].last_chunk, pieces
    text = "".join(part.text for piece in pieces for part in piece.artifact.parts)
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED, events[-1]
    assert text == answer(await ada.get(events[0].task.id)) and text.startswith(TIDES), text


async def question(ada, bob):
    asks = await ada.send("what are tides?", flow="research", approve=True)
    assert asks.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, asks
    words = get_message_text(asks.status.message)
    assert "May I answer" in words and "Answer yes or no." in words, words
    await refused(errors.InvalidParamsError, ada.plain.send_message(request("perhaps", task=asks.id)))
    await refused(errors.InvalidParamsError, ada.plain.send_message(request("yes", task=asks.id, context="another")))
    await refused(errors.TaskNotFoundError, bob.plain.send_message(request("yes", task=asks.id)))
    events = [one async for one in ada.streams.send_message(request("yes", task=asks.id, context=asks.context_id))]
    assert events[0].task.id == asks.id and events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED, events
    done = await ada.get(asks.id)
    assert "moon" in answer(done) and [one.role for one in done.history] == [Role.ROLE_USER, Role.ROLE_AGENT, Role.ROLE_USER], done
    assert len((await ada.get(asks.id, history_length=1)).history) == 1
    over = await refused(errors.UnsupportedOperationError, ada.plain.send_message(request("yes", task=asks.id)))
    assert "over" in over, over


async def tasks(ada, bob):
    context = f"listed {ada.binding}"
    made = [await ada.send("what are tides?", context=context, flow="direct") for _ in range(3)]
    page = await ada.plain.list_tasks(ListTasksRequest(context_id=context, page_size=2, include_artifacts=True))
    rest = await ada.plain.list_tasks(ListTasksRequest(context_id=context, page_size=2, page_token=page.next_page_token))
    assert [task.id for task in [*page.tasks, *rest.tasks]] == [task.id for task in reversed(made)], page
    assert page.total_size == 3 and not rest.next_page_token and page.tasks[0].artifacts and not rest.tasks[0].artifacts
    assert not (await bob.plain.list_tasks(ListTasksRequest(context_id=context))).tasks
    await refused(errors.TaskNotFoundError, bob.get(made[0].id))


async def cancel(ada, bob):
    going = await ada.send("this hangs", flow="direct", at_once=True)
    assert going.status.state in (TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_SUBMITTED), going
    await refused(errors.TaskNotFoundError, bob.plain.cancel_task(CancelTaskRequest(id=going.id)))
    await refused(errors.UnsupportedOperationError, ada.plain.send_message(request("more", task=going.id)))
    stopped = await ada.plain.cancel_task(CancelTaskRequest(id=going.id))
    assert stopped.status.state == TaskState.TASK_STATE_CANCELED, stopped
    await refused(errors.TaskNotCancelableError, ada.plain.cancel_task(CancelTaskRequest(id=going.id)))


async def resubscribe(ada, bob):
    """The client's connection closes in mid-stream; it reconnects and receives the end."""
    going = ada.streams.send_message(request("slow tides", flow="direct"))
    task = (await anext(going)).task.id
    await anext(going)
    await going.aclose()
    events = [one async for one in ada.streams.subscribe(SubscribeToTaskRequest(id=task))]
    assert events[0].task.id == task and events[0].task.status.state == TaskState.TASK_STATE_WORKING, events[0]
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED, events
    assert "Slowly" in "".join(part.text for one in events if one.HasField("artifact_update") for part in one.artifact_update.artifact.parts), events
    await refused(errors.UnsupportedOperationError, ada.streams.subscribe(SubscribeToTaskRequest(id=task)))


async def fails(ada, bob):
    failed = await ada.send("this fails", flow="direct")
    assert failed.status.state == TaskState.TASK_STATE_FAILED and "nobody thinks" in get_message_text(failed.status.message), failed
    await refused(errors.TaskNotFoundError, ada.get("nobody"))
    unknown = await refused(errors.InvalidParamsError, ada.plain.send_message(request("x", flow="gpt-4o")))
    assert "direct" in unknown, unknown
    picture = SendMessageRequest(message=Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=[Part(raw=b"png", media_type="image/png")]))
    await refused(errors.ContentTypeNotSupportedError, ada.plain.send_message(picture))
    await refused(errors.InvalidParamsError, ada.plain.send_message(SendMessageRequest(message=Message(message_id="x", role=Role.ROLE_USER))))
    if ada.binding == "GRPC":
        async with grpc.aio.insecure_channel(ada.url.removeprefix("http://")) as nobody:
            call = nobody.unary_unary("/lf.a2a.v1.A2AService/GetTask", GetTaskRequest.SerializeToString)
            try:
                raise AssertionError(await call(GetTaskRequest(id="x")))
            except grpc.aio.AioRpcError as error:
                assert error.code() == grpc.StatusCode.UNAUTHENTICATED and "token" in error.details(), error
    older = await ada.http.post(f"{ada.url}/a2a", headers={"A2A-Version": "0.3"}, json={"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {}})
    assert older.json()["error"]["code"] == -32009, older.text


class Receiver(BaseHTTPRequestHandler):
    received = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Receiver.received.append((dict(self.headers), body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


async def push(ada, bob):
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hook = f"http://127.0.0.1:{server.server_port}/hook"
    config = TaskPushNotificationConfig(url=hook, token="sesame")
    Receiver.received.clear()
    asks = await ada.send("what are tides?", flow="research", approve=True, push=config)
    state = lambda: [body["task"]["status"]["state"] for _, body in Receiver.received if body["task"]["id"] == asks.id]
    await wait_until(lambda: state() == ["TASK_STATE_INPUT_REQUIRED"])
    assert {name.lower(): value for name, value in Receiver.received[0][0].items()}["x-a2a-notification-token"] == "sesame"
    await ada.send("yes", task=asks.id)
    await wait_until(lambda: state()[-1:] == ["TASK_STATE_COMPLETED"])
    listed = await ada.plain.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id=asks.id))
    assert [one.url for one in listed.configs] == [hook], listed
    going = await ada.send("slow tides", flow="direct", at_once=True)
    made = await ada.plain.create_task_push_notification_config(TaskPushNotificationConfig(task_id=going.id, url=hook, id="mine"))
    assert (await ada.plain.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(task_id=going.id, id="mine"))) == made
    await refused(errors.TaskNotFoundError, bob.plain.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(task_id=going.id, id="mine")))
    await ada.plain.delete_task_push_notification_config(DeleteTaskPushNotificationConfigRequest(task_id=going.id, id="mine"))
    await ada.until(going.id, TaskState.TASK_STATE_COMPLETED)
    await asyncio.sleep(1)
    assert not any(body["task"]["id"] == going.id for _, body in Receiver.received), "it was deleted"
    inward = await refused(errors.InvalidParamsError, ada.plain.send_message(request("x", push=TaskPushNotificationConfig(url="http://10.0.0.1/"))))
    assert "public" in inward, inward
    server.shutdown()


async def wait_until(is_so, seconds=20):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, Receiver.received
        await asyncio.sleep(0.05)


async def restarted(ada, bob, kept):
    """The server was killed while a task was at work and another one asked something; both go on in the next one."""
    asks, slow = kept
    assert (await ada.get(asks.id)).status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    assert "moon" in answer(await ada.send("yes", task=asks.id))
    assert "Slowly" in answer(await ada.until(slow.id, TaskState.TASK_STATE_COMPLETED))


async def everything(url, keys, kept):
    for binding in BINDINGS:
        async with Client(url, keys["ada"], binding) as ada, Client(url, keys["bob"], binding) as bob:
            if kept is not None:
                await restarted(ada, bob, kept[binding])
                print("ok", binding, "restarted", flush=True)
                continue
            for test in [card, send, stream, question, tasks, cancel, resubscribe, fails, push]:
                await test(ada, bob)
                print("ok", binding, test.__name__, flush=True)
    if kept is None:
        left = {}
        for binding in BINDINGS:
            async with Client(url, keys["ada"], binding) as ada:
                left[binding] = (await ada.send("what are tides?", flow="research", approve=True), await ada.send("slow tides", flow="direct", at_once=True))
        return left


keys = {user: token(baton, folder / "serve.db", user) for user in ["ada", "bob"]}
with started(command, folder / "serve.log") as serving:
    kept = asyncio.run(everything(serving["url"], keys, None))
with started(command, folder / "serve.log") as serving:
    asyncio.run(everything(serving["url"], keys, kept))
