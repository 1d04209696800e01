"""`langserve.RemoteRunnable` against Baton: `client.py BATON FOLDER`, with an agent whose world a script plays (`agent.script`)."""
import asyncio
import json
import sys
from pathlib import Path

import httpx
from langchain_core.messages import AIMessage, HumanMessage
from langserve import RemoteRunnable

from processes import all_of, started

baton, folder = sys.argv[1], Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
state = {"messages": [HumanMessage("research tides", id="h1")], "next": "", "context": {"tone": "dry"}}


def asynchronously(path, way):
    return all_of(RemoteRunnable(f"{url}/{path}/"), way)


def is_done(output):
    last = output["messages"][-1]
    assert isinstance(last, AIMessage), last
    contract = json.loads(last.content)
    assert contract["completed_capability"] == "research" and contract["data"]["tool_used"] is True, contract
    assert output["messages"][0] == state["messages"][0], "what was sent comes back as it was"
    assert output["context"]["tone"] == "dry"


def invoke():
    is_done(agent.invoke(state))
    is_done(agent.invoke(state, config={"tags": ["t"], "metadata": {"a": 1}, "recursion_limit": 9, "configurable": {"thread_id": "python"}}))


def batch():
    outputs = agent.batch([state, state, state])
    assert len(outputs) == 3
    for output in outputs:
        is_done(output)


def stream():
    chunks = list(agent.stream(state))
    assert len(chunks) > 1, chunks
    is_done(chunks[-1]["researcher"])
    assert any("triage" in chunk for chunk in chunks), chunks


def concurrent():
    for output in asynchronously("graph", lambda remote: asyncio.gather(*(remote.ainvoke(state) for _ in range(8)))):
        is_done(output)


def stream_log():
    patches = asynchronously("graph", lambda remote: remote.astream_log(state))
    log = patches[0]
    for patch in patches[1:]:
        log = log + patch
    is_done(log.state["final_output"])
    assert "triage" in json.dumps(list(log.state["logs"])), log.state["logs"].keys()


def stream_events():
    events = asynchronously("graph", lambda remote: remote.astream_events(state, version="v2"))
    names = [(event["event"], event["name"]) for event in events]
    assert ("on_chain_start", "/graph") in names and ("on_chain_end", "/graph") in names, names
    assert any(name == "report" for _, name in names), names


def schemas():
    schema = agent.get_input_schema().model_json_schema() if hasattr(agent, "get_input_schema") else {}
    assert isinstance(schema, dict)
    for name in ["input_schema", "output_schema", "config_schema"]:
        got = httpx.get(f"{url}/graph/{name}").json()
        assert got["type"] == "object" and "title" in got, got
    assert httpx.get(f"{url}/agent.json").json()["capabilities"][0]["name"] == "research"


def errors():
    for wrong in [{"messages": 3}, {}, {"messages": [{"type": "robot", "content": "x"}]}, {"messages": []}]:
        try:
            agent.invoke(wrong)
            raise AssertionError(f"{wrong} was taken")
        except httpx.HTTPStatusError as error:
            assert error.response.status_code == 422 and error.response.json()["detail"], error.response.text
    try:
        list(agent.stream({"messages": 3}))
        raise AssertionError("a stream was begun")
    except httpx.HTTPStatusError as error:
        assert error.response.status_code == 422


def other_flows():
    direct = RemoteRunnable(url + "/direct/")
    output = direct.invoke({"messages": [HumanMessage("what are tides?")]})
    assert output["messages"][-1].content, output
    assert "answer" in direct.invoke({"question": "what are tides?"})


def failed_runs():
    """A run that fails is reported as failed in every form, with its reason, and the next one succeeds."""
    direct = RemoteRunnable(url + "/direct/")
    failing = {"messages": [HumanMessage("how do things fail?")]}

    ways = {
        "invoke": lambda: direct.invoke(failing),
        "ainvoke": lambda: asynchronously("direct", lambda remote: remote.ainvoke(failing)),
        "batch": lambda: direct.batch([{"messages": [HumanMessage("what are tides?")]}, failing]),
        "stream": lambda: list(direct.stream(failing)),
        "astream": lambda: asynchronously("direct", lambda remote: remote.astream(failing)),
        "stream_log": lambda: asynchronously("direct", lambda remote: remote.astream_log(failing)),
        "stream_events": lambda: asynchronously("direct", lambda remote: remote.astream_events(failing, version="v2")),
    }
    for name, way in ways.items():
        try:
            raise AssertionError(f"{name} went well: {way()}")
        except httpx.HTTPStatusError as error:
            assert error.response.status_code == 500 and "nobody thinks" in error.response.text, (name, error.response.text)
    # The stream had begun: it sends its metadata, and then the error instead of an end.
    with httpx.stream("POST", f"{url}/direct/stream", json={"input": {"question": "how do things fail?"}}) as response:
        events = [line for line in response.iter_lines() if line.startswith("event: ")]
    assert response.status_code == 200 and (events[0], events[-1]) == ("event: metadata", "event: error"), events
    assert direct.invoke({"messages": [HumanMessage("what are tides?")]})["messages"][-1].content


tests = [invoke, batch, stream, concurrent, stream_log, stream_events, schemas, errors, other_flows, failed_runs]
script = Path(__file__).with_name("agent.script")
command = [baton, "--script", script, "--db", folder / "agent.db", "agent", "researcher", "--port", "0", "--json"]
with started(command, folder / "agent.log") as serving:
    url = "http://" + serving["listening"]
    agent = RemoteRunnable(url + "/graph/")
    for test in tests:
        test()
        print("ok", test.__name__, flush=True)
