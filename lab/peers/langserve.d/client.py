"""`langserve.RemoteRunnable` against Baton: `client.py URL`, the address of an agent that a script plays (`agent.script`)."""
import asyncio
import json
import sys

import httpx
from langchain_core.messages import AIMessage, HumanMessage
from langserve import RemoteRunnable

url = sys.argv[1]
agent = RemoteRunnable(url + "/graph/")
state = {"messages": [HumanMessage("research tides", id="h1")], "next": "", "context": {"tone": "dry"}}


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
    async def several():
        agent = RemoteRunnable(url + "/graph/")
        return await asyncio.gather(*(agent.ainvoke(state) for _ in range(8)))

    for output in asyncio.run(several()):
        is_done(output)


def stream_log():
    async def last():
        agent = RemoteRunnable(url + "/graph/")
        log = None
        async for patch in agent.astream_log(state):
            log = patch if log is None else log + patch
        return log

    log = asyncio.run(last())
    is_done(log.state["final_output"])
    assert "triage" in json.dumps(list(log.state["logs"])), log.state["logs"].keys()


def stream_events():
    async def events():
        agent = RemoteRunnable(url + "/graph/")
        return [event async for event in agent.astream_events(state, version="v2")]

    names = [(event["event"], event["name"]) for event in asyncio.run(events())]
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


for test in [invoke, batch, stream, concurrent, stream_log, stream_events, schemas, errors, other_flows]:
    test()
    print("ok", test.__name__, flush=True)
