"""The examples of one page of the guide, and an agent that is started from one of them."""
import re
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

START_S_MAX = 60


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Examples:
    def __init__(self, page):
        self.page = f"guide/src/{page}"
        text = Path(__file__).parents[3].joinpath(self.page).read_text()
        self.blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)

    def block(self, language, words):
        """The only block in this language with these words."""
        found = [text for kind, text in self.blocks if kind == language and words in text]
        assert len(found) == 1, f"{self.page}: {len(found)} {language} blocks have {words!r} in them"
        return found[0]

    def replaced(self, text, old, new):
        assert old in text, f"{self.page} no longer contains {old!r}: {text}"
        return text.replace(old, new)

    def block_with(self, language, words, old, new):
        return self.replaced(self.block(language, words), old, new)


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **more)
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout, done.stderr


@contextmanager
def listening_agent(program, port):
    """Runs a Python program until the block ends; the block begins when the program listens at the port."""
    agent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + START_S_MAX
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", int(port))) == 0:
                    break
            assert time.monotonic() < until and agent.poll() is None, "the agent does not listen"
            time.sleep(0.05)
        yield
    finally:
        agent.kill()
        agent.wait()


def run_all(tests):
    for test in tests:
        test()
        print("ok", test.__name__, flush=True)
