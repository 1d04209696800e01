"""`langserve.RemoteRunnable` against `baton serve`, whose users have tokens: `serve.py BATON FOLDER`."""
import json
import subprocess
import sys
from pathlib import Path

import httpx
from langchain_core.messages import AIMessage, HumanMessage
from langserve import RemoteRunnable

from processes import all_of, started

baton, folder = sys.argv[1], Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
question = {"messages": [HumanMessage("what are tides?")]}


def token(user):
    added = subprocess.run([baton, "--db", folder / "serve.db", "tokens", "add", user, "--json"], capture_output=True, text=True, check=True)
    return {"Authorization": "Bearer " + json.loads(added.stdout)["token"]}


def graph(headers, path="graph"):
    return RemoteRunnable(f"{url}/{path}/", headers=headers)


def refused(status, way):
    try:
        raise AssertionError(f"it went well: {way()}")
    except httpx.HTTPStatusError as error:
        assert error.response.status_code == status, error
        return error


def answers():
    for path in ["graph", "direct"]:
        last = graph(ada, path).invoke(question)["messages"][-1]
        assert isinstance(last, AIMessage) and "moon" in last.content, last
    assert len(graph(ada).batch([question] * 3)) == 3
    chunks = list(graph(ada).stream(question))
    assert "moon" in chunks[-1]["auto"]["messages"][-1].content, chunks


def streams():
    log = all_of(graph(ada), lambda remote: remote.astream_log(question))
    assert "final_output" in str(log[-1]), log
    events = all_of(graph(ada), lambda remote: remote.astream_events(question, version="v2"))
    assert events[-1]["event"] == "on_chain_end", events


def users():
    refused(401, lambda: RemoteRunnable(url + "/graph/").invoke(question))
    config = {"configurable": {"thread_id": "of ada"}}
    graph(ada).invoke(question, config=config)
    # Names of threads are separate for each user: Bob's starts another one, and nothing shows that Ada uses it too.
    graph(bob).invoke(question, config=config)
    list(graph(bob).stream(question, config=config))
    threads = lambda headers: [one["thread"] for one in httpx.get(f"{url}/api/threads", headers=headers).json()["threads"]]
    of_ada, of_bob = threads(ada), threads(bob)
    assert any(name.startswith("of ada-") for name in of_ada), of_ada
    assert len(of_bob) == 1 and of_bob[0] not in of_ada, "the page shows each their own"


ada, bob = token("ada"), token("bob")
script = Path(__file__).with_name("agent.script")
command = [baton, "--script", script, "--db", folder / "serve.db", "serve", "--port", "0", "--json"]
with started(command, folder / "serve.log") as serving:
    url = serving["url"]
    for test in [answers, streams, users]:
        test()
        print("ok", test.__name__, flush=True)
