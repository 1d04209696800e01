"""Clocks that are wrong and that jump (faketime): leases use the database's clock, so nothing is taken from a server that works, and what stopped is
taken over all the same."""
import shutil
import time

from servers import Home, eventually

FAKETIME = shutil.which("faketime")


def faked(home, name):
    """A clock that a file sets while the process runs."""
    rc = home.folder / f"{name}.time"
    library = next(path for path in ("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1") if shutil.os.path.exists(path))
    set_to(rc, "+0")
    # Timers of the process stay real: only what it reads as the time of day changes.
    return rc, {"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": str(rc), "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}


def set_to(rc, offset):
    rc.write_text(offset + "\n")


if __name__ == "__main__":
    if not FAKETIME:
        raise SystemExit("   faketime is missing (Debian: apt install faketime)")
    with Home() as home:
        steady = home.script("steady", 'when tool notes.append reply {"n": 1} checkable after 100ms', 'when model answer reply "late" after 6s')
        (left_time, left), (right_time, right) = faked(home, "left"), faked(home, "right")
        set_to(left_time, "-1d")
        servers = [home.serve(steady, extra=left), home.serve(steady, extra=right)]
        runs = [servers[n % 2].start() for n in range(6)]
        # Jumps while runs wait for a model: ahead by an hour, back by two days.
        time.sleep(1)
        set_to(right_time, "+1h")
        time.sleep(2)
        set_to(left_time, "-3d")
        set_to(right_time, "-2d")
        for run in runs:
            servers[0].wait(run)
        taken = sum(server.metrics()["baton_runs_taken_over_total"] for server in servers)
        assert taken == 0, f"{taken:.0f} runs were taken from servers that worked"
        notes = home.happened("notes.append")
        assert notes == len(runs), f"{notes} notes of {len(runs)} runs"
        more = [servers[0].start() for _ in range(3)]
        servers[0].kill()
        killed = time.monotonic()
        for run in more:
            servers[1].wait(run)
        print(f"   clocks a day behind, an hour ahead and jumping: {len(runs)} runs ended well where they were; after a kill all had ended in {time.monotonic() - killed:.1f} s")
