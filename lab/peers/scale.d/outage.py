"""The database is stopped for a while: runs wait and go on, the operator sees it, and nothing is lost."""
import os
import subprocess
import time

from servers import IS_LONG, Home, eventually

AWAY_S = 60 if IS_LONG else 6
CONTROL = os.environ["BATON_POSTGRES_CONTROL"]


def postgres(*args):
    subprocess.run([CONTROL, *args], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    with Home() as home:
        steady = home.script("steady", 'when tool notes.append reply {"n": 1} checkable after 500ms')
        servers = [home.serve(steady), home.serve(steady)]
        runs = [servers[n % 2].start() for n in range(10)]
        postgres("stop", "-m", "immediate")
        begun = time.monotonic()
        try:
            eventually("baton_store_up is 0", lambda: servers[0].metrics()["baton_store_up"] == 0, patience=AWAY_S)
            print(f"   baton_store_up was 0 after {time.monotonic() - begun:.1f} s")
            code, reply = servers[0].call("/api/runs", {"question": "What is it?", "flow": "research"}, timeout=5) if AWAY_S < 10 else (503, "")
        except TimeoutError:
            pass
        time.sleep(max(0, AWAY_S - (time.monotonic() - begun)))
        postgres("start")
        back = time.monotonic()
        for n, run in enumerate(runs):
            servers[(n + 1) % 2].wait(run)
        print(f"   away for {AWAY_S} s; all {len(runs)} runs had ended {time.monotonic() - back:.1f} s after it was back")
        eventually("baton_store_up is 1 again", lambda: all(server.metrics()["baton_store_up"] == 1 for server in servers))
        notes, extra = home.happened("notes.append"), len(home.sql(f"SELECT name FROM {home.schema}.runs").splitlines())
        assert notes == extra, f"{notes} notes of {extra} runs"
        assert all("cannot be reached" in server.log.read_text() or "lost" in server.log.read_text() for server in servers), "the log does not say it"
