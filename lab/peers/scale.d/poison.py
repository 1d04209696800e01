"""A run that crashes its process every time: the others continue, it is failed after some takeovers, and that is reported to the operator."""
import time

from servers import Home, eventually

TAKEOVERS_MAX = 3


def poisoned(home, is_shared):
    home.folder.joinpath("baton.toml").write_text(f"[server]\ntakeovers_max = {TAKEOVERS_MAX}\n")
    config = {"BATON_CONFIG": str(home.folder / "baton.toml")}
    # Only the question with this word reaches the rule that ends the process.
    rules = ["when model plan text~poison abort after 300ms", 'when model answer reply "slow" after 1500ms']
    script = home.script("poison", *rules)
    server = home.serve(script, extra=config)
    others = [server.start() for _ in range(5)]
    bad = server.start(question="Drink the poison?")
    crashes = 0
    until = time.monotonic() + 240
    while True:
        assert time.monotonic() < until, f"still crashing after {crashes} times"
        if not server.is_up():
            crashes += 1
            server = home.serve(script, extra=config)
        try:
            if server.status(bad) == "failed":
                break
        except OSError:
            pass
        time.sleep(0.2)
    assert crashes == TAKEOVERS_MAX + 1, f"{crashes} crashes"
    for run in others:
        server.wait(run)
    more = server.start()
    server.wait(more)
    assert home.happened("notes.append") == len(others) + 1
    assert server.metrics()["baton_runs_given_up_total"] == 1
    assert bad in server.log.read_text(), "the log does not name the run"
    _, row = server.call(f"/api/runs/{bad}")
    assert "baton runs resume" in str(row), row
    code, out, err = home.baton("doctor", "--json", script=script, extra=config)
    assert bad in out, (out, err)
    # Fixed, it goes on from where it was.
    server.kill()
    code, out, err = home.baton("runs", "resume", bad, extra=config)
    assert code == 0, (out, err)
    code, out, err = home.baton("doctor", "--json", extra=config)
    assert bad not in out, out
    print(f"   {'Postgres' if is_shared else 'SQLite'}: given up after {crashes} crashes; {len(others)} others ended well; resumed by hand it ended well")


if __name__ == "__main__":
    for is_shared in (True, False):
        with Home(is_shared) as home:
            poisoned(home, is_shared)
