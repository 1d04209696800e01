"""`langgraph-sdk` and `RemoteGraph` against `baton serve`: `client.py BATON FOLDER`."""
import asyncio
import sys
import threading
import time
from pathlib import Path
from zoneinfo import ZoneInfo

import httpx
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteException, RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_client, get_sync_client

from serving import free_port, serving

baton, folder = sys.argv[1], Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
MODES = ["values", "updates", "messages-tuple", "custom", "debug", "events", "tasks", "checkpoints"]


def asks(text):
    return {"messages": [{"role": "user", "content": text}]}


def status_of(way):
    try:
        raise AssertionError(f"it went well: {way()}")
    except httpx.HTTPStatusError as error:
        return error.response.status_code
    except Exception as error:
        status = getattr(error, "status_code", None) or getattr(getattr(error, "response", None), "status_code", None)
        assert status, repr(error)
        return status


def assistants():
    found = client.assistants.search(limit=100)
    names = {one["graph_id"] for one in found}
    assert {"direct", "graph", "reason"} <= names, names
    direct = next(one for one in found if one["graph_id"] == "direct")
    assert client.assistants.get(direct["assistant_id"])["name"] == "direct"
    assert client.assistants.get_schemas(direct["assistant_id"])["input_schema"]
    assert client.assistants.get_graph("direct")["nodes"]
    assert RemoteGraph("direct", url=url).get_graph().nodes
    plain, deep = (client.assistants.get_graph("report", xray=xray) for xray in (False, True))
    ids = {node["id"] for node in deep["nodes"]}
    assert "sections" in {node["id"] for node in plain["nodes"]} and any(one.startswith("sections:") for one in ids), ids
    assert all(edge["source"] in ids and edge["target"] in ids for edge in deep["edges"]), deep["edges"]
    assert any(one.startswith("sections:") for one in RemoteGraph("report", url=url).get_graph(xray=1).nodes)
    mine = client.assistants.create("direct", name="mine", metadata={"of": "python"})
    assert client.assistants.update(mine["assistant_id"], name="ours")["version"] == 2
    assert client.assistants.count(metadata={"of": "python"}) == 1
    assert "moon" in RemoteGraph(mine["assistant_id"], url=url).invoke(asks("tides?"))["messages"][-1]["content"]
    client.assistants.delete(mine["assistant_id"])


def invoke():
    remote = RemoteGraph("direct", url=url)
    result = remote.invoke(asks("what are tides?"))
    assert "moon" in result["messages"][-1]["content"] and result["messages"][-1]["type"] == "ai", result
    assert "moon" in client.runs.wait(None, "graph", input=asks("what are tides?"))["messages"][-1]["content"]
    parent = StateGraph(MessagesState).add_node("baton", remote).add_edge(START, "baton").add_edge("baton", END).compile()
    inside = parent.invoke(asks("what are tides?"))
    assert "moon" in inside["messages"][-1].content, inside


def threads():
    thread = client.threads.create(metadata={"kind": "test"})
    config = {"configurable": {"thread_id": thread["thread_id"]}}
    remote = RemoteGraph("direct", url=url)
    remote.invoke(asks("one"), config)
    assert len(remote.invoke(asks("two"), config)["messages"]) == 4
    state = remote.get_state(config)
    assert len(state.values["messages"]) == 4 and state.next == (), state
    past = list(remote.get_state_history(config, limit=50))
    assert len(past) >= 4, past
    first = next(one for one in past if len(one.values["messages"]) == 2 and one.next == ())
    # From after the first answer: the second question is another one.
    forked = client.runs.wait(thread["thread_id"], "direct", input=asks("three"), checkpoint=first.config["configurable"])
    assert [one["content"] for one in forked["messages"]][2] == "three", forked
    remote.update_state(config, {"messages": [{"role": "user", "content": "by hand"}]})
    assert remote.get_state(config).values["messages"][-1]["content"] == "by hand"
    assert [one["thread_id"] for one in client.threads.search(metadata={"kind": "test"})] == [thread["thread_id"]]
    copy = client.threads.copy(thread["thread_id"])
    assert len(client.threads.get_state(copy["thread_id"])["values"]["messages"]) == 5
    client.threads.update(thread["thread_id"], metadata={"more": 1})
    assert client.threads.get(thread["thread_id"])["metadata"] == {"kind": "test", "more": 1}
    assert client.threads.count(metadata={"kind": "test"}) == 2
    client.threads.delete(copy["thread_id"])
    assert status_of(lambda: client.threads.get(copy["thread_id"])) == 404


def streams():
    thread = client.threads.create()["thread_id"]
    for mode in MODES:
        events = list(client.runs.stream(thread, "direct", input=asks("what are tides?"), stream_mode=mode))
        names = {event.event for event in events}
        assert events[0].event == "metadata" and (mode.removesuffix("-tuple") in names or mode == "custom"), (mode, names)
    parts = [chunk[0] for chunk in RemoteGraph("direct", url=url).stream(asks("tides?"), stream_mode="messages")]
    text = "".join(message["content"] for message in parts if message["type"] != "tool")
    assert text == "Tides are caused by the moon.", text
    both = list(RemoteGraph("research", url=url).stream({"question": "tides?"}, stream_mode=["updates", "values"]))
    nodes = [next(iter(chunk.data)) for chunk in both if chunk.event == "updates"]
    assert nodes[:3] == ["plan", "look_up", "critic"], nodes


def errors():
    for way in [lambda: RemoteGraph("direct", url=url).invoke(asks("fail")), lambda: client.runs.wait(None, "direct", input=asks("fail"))]:
        try:
            raise AssertionError(f"it went well: {way()}")
        except AssertionError:
            raise
        except Exception as error:
            assert "nobody thinks" in str(error) or isinstance(error, RemoteException), repr(error)
    assert status_of(lambda: client.runs.wait(None, "nobody", input=asks("x"))) == 422
    assert status_of(lambda: client.threads.get("00000000-0000-4000-8000-000000000000")) == 404
    thread = client.threads.create()["thread_id"]
    assert status_of(lambda: client.runs.wait(thread, "direct", input=asks("x"), interrupt_before=["nobody"])) == 422
    assert status_of(lambda: client.runs.create(thread, "direct", input=asks("x"), webhook="http://127.0.0.1:1/")) == 422


def interrupts():
    remote = RemoteGraph("research", url=url)
    config = {"configurable": {"thread_id": client.threads.create()["thread_id"]}}
    result = remote.invoke({"question": "what are tides?", "approve": True}, config)
    assert "May I answer" in result["__interrupt__"][0]["value"]["question"], result
    state = remote.get_state(config)
    assert state.next == ("approve",) and state.tasks[0].interrupts, state
    assert client.threads.get(config["configurable"]["thread_id"])["status"] == "interrupted"
    result = remote.invoke(Command(resume={"approve": True}), config)
    assert "moon" in result["answer"], result
    assert client.threads.get(config["configurable"]["thread_id"])["status"] == "idle"


def breakpoints():
    """`interrupt_before` and `interrupt_after`: the run waits there, asks nothing, and goes on without input."""
    for stops in [{"interrupt_before": ["look_up"]}, {"interrupt_before": "*"}, {"interrupt_after": "*"}]:
        thread = client.threads.create()["thread_id"]
        values = client.runs.wait(thread, "research", input={"question": "what are tides?"}, **stops)
        assert "__interrupt__" not in values, values
        state = client.threads.get_state(thread)
        assert state["next"] == (["plan"] if stops == {"interrupt_before": "*"} else ["look_up"]) and not state["tasks"][0]["interrupts"], state
        assert client.threads.get(thread)["status"] == "interrupted"
        if stops == {"interrupt_before": "*"}:
            client.runs.wait(thread, "research", input=None, **stops)
            assert client.threads.get_state(thread)["next"] == ["look_up"]
        done = client.runs.wait(thread, "research", input=None)
        assert "moon" in done["answer"] and client.threads.get_state(thread)["next"] == [], done
    remote = RemoteGraph("research", url=url)
    config = {"configurable": {"thread_id": client.threads.create()["thread_id"]}}
    chunks = list(remote.stream({"question": "what are tides?"}, config, stream_mode="updates", interrupt_before=["look_up"]))
    assert remote.get_state(config).next == ("look_up",), chunks
    assert "moon" in remote.invoke(None, config)["answer"]


def goes():
    """`Command(goto=…)`: the run goes on at that node, in a branch."""
    remote = RemoteGraph("research", url=url)
    config = {"configurable": {"thread_id": client.threads.create()["thread_id"]}}
    result = remote.invoke({"question": "what are tides?", "approve": True}, config)
    assert "__interrupt__" in result, result
    # Past the question, to a node where the run was before; it asks again.
    result = remote.invoke(Command(goto="look_up"), config)
    assert "May I answer" in result["__interrupt__"][0]["value"]["question"], result
    nodes = [node["id"] for node in client.assistants.get_graph("research")["nodes"] if not node["id"].startswith("__")]
    assert "answer" in nodes, nodes
    result = client.runs.wait(config["configurable"]["thread_id"], "research", command={"goto": "answer"})
    assert "moon" in result["answer"], result
    try:
        client.runs.wait(config["configurable"]["thread_id"], "research", command={"goto": "nowhere"})
        raise AssertionError("there is no such node")
    except httpx.HTTPStatusError as error:
        assert error.response.status_code == 422 and "look_up" in error.response.text, error.response.text
    except Exception as error:
        assert "look_up" in str(getattr(error, "body", "")) + str(error), repr(error)


def thread_streams():
    """The runs of a thread as they come, for somebody who did not start them."""
    thread = client.threads.create()["thread_id"]

    def follow(runs, **options):
        parts = []
        for part in client.threads.join_stream(thread, **options):
            parts.append(part)
            if sum(one.event == "metadata" and one.data.get("status") == "run_done" for one in parts) == runs:
                return parts

    def followed(runs, **options):
        parts = []
        follower = threading.Thread(target=lambda: parts.append(follow(runs, **options)), daemon=True)
        follower.start()
        return follower, parts

    first, all_parts = followed(2)
    second, ends = followed(2, stream_mode="lifecycle")
    time.sleep(1)
    started = list(client.runs.stream(thread, "research", input={"question": "tides?"}, stream_mode=["updates", "messages-tuple"]))
    client.runs.wait(thread, "direct", input=asks("what are tides?"))
    for follower in (first, second):
        follower.join(30)
        assert not follower.is_alive(), "the runs were not streamed"
    parts, (ends,) = all_parts[0], ends
    own = [(part.event, part.data) for part in started if part.event not in ("end", "metadata")]
    assert [(part.event, part.data) for part in parts if part.event not in ("values", "metadata")] == own, parts
    assert {part.event for part in ends} == {"metadata"} and len(ends) == 4, ends
    assert "moon" in [part for part in parts if part.event == "values"][-1].data["messages"][-1]["content"]
    cut = next(at for at, part in enumerate(parts) if part.id and at > 2)
    rest = follow(2, last_event_id=parts[cut].id)
    # Pieces of an answer are not sent again: the message comes as a whole.
    whole = [[part.data for part in each if part.event != "messages"] for each in (rest, parts[cut + 1 :])]
    assert whole[0] == whole[1], rest


def double_texting():
    thread = client.threads.create()["thread_id"]
    first = client.runs.create(thread, "direct", input=asks("slow"))
    assert status_of(lambda: client.runs.create(thread, "direct", input=asks("x"), multitask_strategy="reject")) == 409
    second = client.runs.create(thread, "direct", input=asks("tides?"), multitask_strategy="enqueue")
    assert second["status"] == "pending", second
    assert len(client.runs.join(thread, second["run_id"])["messages"]) == 4
    third = client.runs.create(thread, "direct", input=asks("slow"))
    client.runs.wait(thread, "direct", input=asks("tides?"), multitask_strategy="interrupt")
    assert client.runs.get(thread, third["run_id"])["status"] == "interrupted"
    later = client.runs.create(thread, "direct", input=asks("tides?"), after_seconds=1)
    assert later["status"] == "pending"
    client.runs.join(thread, later["run_id"])
    assert {one["run_id"] for one in client.runs.list(thread)} >= {first["run_id"], second["run_id"], later["run_id"]}


def cancel():
    thread = client.threads.create()["thread_id"]
    run = client.runs.create(thread, "direct", input=asks("slow"))
    began = time.monotonic()
    client.runs.cancel(thread, run["run_id"], wait=True)
    assert time.monotonic() - began < 2 and client.runs.get(thread, run["run_id"])["status"] == "interrupted"
    gone = list(client.runs.stream(thread, "direct", input=asks("slow"), stream_mode="values", on_disconnect="cancel", stream_resumable=True))
    assert "moon" in gone[-1].data["messages"][-1]["content"] if gone[-1].event == "values" else gone[-1].event == "end", gone[-1]


def reconnects():
    """A line that breaks in the middle of a stream, and a server that is killed there."""
    thread = client.threads.create()["thread_id"]
    whole = list(client.runs.stream(thread, "research", input={"question": "tides?"}, stream_mode=["updates", "values"], stream_resumable=True))
    run = whole[0].data["run_id"]
    for cut in range(1, len(whole) - 1):
        if whole[cut - 1].id:
            rest = list(client.runs.join_stream(thread, run, stream_mode=["updates", "values"], last_event_id=whole[cut - 1].id))
            assert [one.data for one in rest] == [one.data for one in whole[cut:]], (cut, rest)


def store():
    client.store.put_item(["memories", "ada"], key="m1", value={"likes": "tides"})
    assert client.store.get_item(["memories", "ada"], key="m1")["value"] == {"likes": "tides"}
    assert len(client.store.search_items(["memories"], query="tides")["items"]) == 1
    assert client.store.list_namespaces()["namespaces"] == [["memories", "ada"]]
    client.store.delete_item(["memories", "ada"], key="m1")
    assert client.store.search_items(["memories"])["items"] == []


def crons():
    cron = client.crons.create("direct", schedule="* * * * *", input=asks("tides?"), metadata={"of": "python"})
    assert [one["cron_id"] for one in client.crons.search()] == [cron["cron_id"]]
    client.crons.delete(cron["cron_id"])
    assert client.crons.search() == []
    cron = client.crons.create("direct", schedule="0 9 * * *", input=asks("tides?"), timezone=ZoneInfo("Asia/Kolkata"))
    assert cron["timezone"] == "Asia/Kolkata" and "T03:30" in cron["next_run_date"], cron
    assert "T00:00" in client.crons.update(cron["cron_id"], timezone="Asia/Tokyo")["next_run_date"]
    client.crons.delete(cron["cron_id"])
    assert status_of(lambda: client.crons.create("direct", schedule="0 9 * * *", input=asks("tides?"), timezone="Mars/Olympus")) == 422


def asynchronously():
    async def many():
        remote = get_client(url=url)
        answers = await asyncio.gather(*(remote.runs.wait(None, "direct", input=asks("tides?")) for _ in range(16)))
        return [answer["messages"][-1]["content"] for answer in answers]

    assert all("moon" in answer for answer in asyncio.run(many()))


port = free_port()
with serving(baton, folder, port) as url:
    client = get_sync_client(url=url)
    for test in [assistants, invoke, threads, streams, errors, interrupts, breakpoints, goes, thread_streams, double_texting, cancel, reconnects, store, crons, asynchronously]:
        test()
        print("ok", test.__name__, flush=True)
    thread = client.threads.create()["thread_id"]
    run = client.runs.create(thread, "direct", input=asks("slow"), stream_resumable=True)["run_id"]
    queued = client.runs.create(thread, "direct", input=asks("tides?"))["run_id"]
    first = next(iter(client.runs.join_stream(thread, run, stream_mode="updates", last_event_id="-1")))
    waiting = client.threads.create()["thread_id"]
    client.runs.wait(waiting, "research", input={"question": "what are tides?", "approve": True})
# Killed in the middle of a run, with one queued behind it and one that waits for a person; the next server goes on with all of them.
with serving(baton, folder, port) as url:
    client = get_sync_client(url=url)
    rest = list(client.runs.join_stream(thread, run, stream_mode=["updates", "values"], last_event_id=first.id))
    assert "moon" in str(rest), rest
    assert len(client.runs.join(thread, queued)["messages"]) == 4
    assert "moon" in client.runs.wait(waiting, "research", command={"resume": {"approve": True}})["answer"]
    print("ok killed", flush=True)
