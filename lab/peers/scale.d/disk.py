"""A full disk: a server on SQLite reports it, keeps what it confirmed, and goes on when there is room again; on Postgres a full disk of the server stops no run."""
import os
import subprocess
import time

from servers import Home, can, eventually


def fill(folder):
    path = folder / "ballast"
    with path.open("wb") as file:
        try:
            while True:
                file.write(bytes(1 << 16))
                file.flush()
        except OSError:
            pass
    return path


def full(home, is_shared):
    steady = home.script("steady", 'when tool notes.append reply {"n": 1} checkable after 200ms', f'when model answer reply {"x" * 4096!r}'.replace("'", '"') + " after 1s")
    server = home.serve(steady)
    runs = [server.start() for _ in range(5)]
    time.sleep(0.3)
    ballast = fill(home.folder)
    time.sleep(4)
    assert server.is_up(), "the server ended"
    free = server.metrics()["baton_disk_free_bytes"]
    assert free < 1 << 20, free
    if is_shared:
        for run in runs:
            server.wait(run)
    else:
        # The write-ahead log has room of its own for a while.
        codes = []
        while len(codes) < 4_000 and not (codes and codes[-1] >= 500):
            codes.append(server.call("/api/runs", {"question": "What is it? " + "y" * 4_000, "flow": "research"})[0])
        assert codes[-1] >= 500, f"{len(codes)} runs were accepted on a full disk: {sorted(set(codes))}"
        assert server.metrics()["baton_store_up"] == 0, "baton_store_up is not 0"
        print(f"   SQLite: {len(codes) - 1} runs still fitted in, then {codes[-1]}")
    ballast.unlink()
    for run in runs:
        server.wait(run)
    eventually("baton_store_up is 1 again", lambda: server.metrics()["baton_store_up"] == 1)
    more = server.start()
    server.wait(more)
    wanted = len(runs) + 1
    print(f"   {'Postgres' if is_shared else 'SQLite'}: {free:.0f} bytes free; all {wanted} runs ended well after there was room again")


if __name__ == "__main__":
    if not can("unshare", "--mount", "true"):
        raise SystemExit("   disk: not tried, mounting is not permitted here")
    for is_shared in (False, True):
        with Home(is_shared) as home:
            if not can("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(home.folder)):
                raise SystemExit("   disk: not tried, a tmpfs cannot be mounted here")
            try:
                full(home, is_shared)
            except Exception:
                print(home.servers[-1].log.read_text()[-3000:])
                raise
            finally:
                for server in home.servers:
                    server.kill()
                subprocess.run(["umount", "-l", str(home.folder)], check=False)
