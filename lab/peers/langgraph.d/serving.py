"""`baton serve` with a scripted world, for the clients beside this."""
import socket
from contextlib import contextmanager
from pathlib import Path

from processes import started

SCRIPT = Path(__file__).with_name("agent.script")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as door:
        return door.getsockname()[1]


@contextmanager
def serving(baton, folder, port=0):
    """Gives the address. Killed without warning at the end; the database stays for the next one."""
    command = [baton, "--script", SCRIPT, "--db", folder / "serve.db", "serve", "--port", port, "--json"]
    with started(command, folder / "serve.log") as ready:
        yield ready["url"]
