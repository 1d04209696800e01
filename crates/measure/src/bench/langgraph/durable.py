"""One durable step with 64 runs at once: the asynchronous SQLite checkpointer, every step written before the next."""
import asyncio, json, sys, time
from typing import TypedDict
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

RUNS, STEPS = (4, 2) if "quick" in sys.argv else (64, 20)


class State(TypedDict):
    n: int


async def work(s):
    return {"n": s["n"] + 1}


async def main():
    graph = StateGraph(State)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda s: END if s["n"] >= STEPS else "work", ["work", END])
    async with AsyncSqliteSaver.from_conn_string("peer.db") as saver:
        app = graph.compile(checkpointer=saver)

        async def one(thread):
            config = {"recursion_limit": STEPS + 10, "configurable": {"thread_id": thread}}
            assert (await app.ainvoke({"n": 0}, config, durability="sync"))["n"] == STEPS

        await one("warm")
        begun = time.perf_counter()
        await asyncio.gather(*[one(str(i)) for i in range(RUNS)])
        return time.perf_counter() - begun


print(json.dumps({"step_durable_us": asyncio.run(main()) * 1e6 / (RUNS * STEPS)}))
