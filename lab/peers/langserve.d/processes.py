"""Processes that say in a line of JSON when they are ready, and end when the test is done with them; and clients that are closed after use."""
import asyncio
import inspect
import json
import os
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

READY_S_MAX = 60


@contextmanager
def started(command, log, **environment):
    """Gives what it printed when it was ready. Its standard input is open until then, and so is it."""
    log = Path(log)
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **environment},
        )
    try:
        yield json.loads(first_line(process, log))
    finally:
        process.kill()
        process.wait()


def first_line(process, log):
    late = threading.Timer(READY_S_MAX, process.kill)
    late.start()
    # Other words may come before it.
    line = next((line for line in process.stdout if line.startswith("{")), None)
    late.cancel()
    if line is None:
        raise AssertionError(f"{process.args} did not start: {log.read_text()[-2000:]}")
    # Its other output must be read, or it would block at a full pipe.
    threading.Thread(target=process.stdout.read, daemon=True).start()
    return line


def all_of(remote, way):
    """The result of a client's asynchronous method: one answer, or all of a stream. The client is used in one event loop and closed there."""

    async def gather():
        try:
            going = way(remote)
            return await going if inspect.isawaitable(going) else [one async for one in going]
        finally:
            await remote.async_client.aclose()

    return asyncio.run(gather())
