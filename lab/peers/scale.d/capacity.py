"""Two servers do almost twice the runs of one when effects wait rather than compute: each has so many places for runs, and the database is shared."""
import threading
import time

from servers import Home

PLACES, RUNS, ANSWER_S = 10, 60, 2
RATIO_MIN = 1.7


def runs_per_s(home, servers):
    begun = time.monotonic()
    started = []
    # A server that is full makes callers wait, so each is asked by some at once.
    def ask(server, count):
        for _ in range(count):
            started.append((server, server.start(question="What is it?")))

    callers = [threading.Thread(target=ask, args=(server, RUNS // len(servers) // 5)) for server in servers for _ in range(5)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for server, run in started:
        server.wait(run)
    assert len(started) == RUNS, len(started)
    return RUNS / (time.monotonic() - begun)


if __name__ == "__main__":
    with Home() as home:
        home.folder.joinpath("baton.toml").write_text(f"[server]\nruns_total_max = {PLACES}\nruns_max = 1000\n")
        slow = home.script("slow", f'when model answer reply "slow" after {ANSWER_S}s')
        servers = [home.serve(slow, extra={"BATON_CONFIG": str(home.folder / "baton.toml")}) for _ in range(2)]
        one = runs_per_s(home, servers[:1])
        two = runs_per_s(home, servers)
        print(f"   one server {one:.2f} runs/s, two {two:.2f}: {two / one:.2f} times as many")
        assert two >= RATIO_MIN * one, f"less than {RATIO_MIN} times as many"
