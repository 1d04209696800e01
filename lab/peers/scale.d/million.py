"""SQLite to its limit: a database with very many threads and runs, built by copying the rows of one real run, beside one with a hundred. List, search, open,
start, recover interrupted runs at the start, and a retention that runs meanwhile: each in milliseconds, and as the ratio of the two.
BATON_THREADS is how many (default 100,000; with BATON_SCALE 1,000,000), BATON_INTERRUPTED how many runs are unfinished."""
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import time

from servers import IS_LONG, Home, eventually

THREADS = int(os.environ.get("BATON_THREADS", 1_000_000 if IS_LONG else 20_000))
INTERRUPTED = int(os.environ.get("BATON_INTERRUPTED", 10_000 if IS_LONG else 300))
FEW = 100
# Threads whose whole journal is copied; the others have its first line, which is what lists and counts need.
WHOLE = 5_000
ROUNDS = 15
# What an operation may take more than with few threads, beside the noise of small numbers.
RATIO_MAX, NOISE_MS = 2.0, 20.0


def build(home, threads, interrupted):
    """Copies the first run of the database with its thread; ids are replaced in the journal's lines too."""
    code, out, err = home.baton("ask", "What is it?")
    assert code == 0, err
    path = home.folder / "baton.db"
    database = sqlite3.connect(path, isolation_level=None)
    database.executescript("PRAGMA synchronous = OFF; PRAGMA cache_size = -200000; PRAGMA temp_store = MEMORY;")
    run, run_name, thread, thread_name = database.execute(
        "SELECT runs.id, runs.name, threads.id, threads.name FROM runs JOIN threads ON threads.id = runs.thread WHERE parent IS NULL ORDER BY runs.id LIMIT 1"
    ).fetchone()
    lines = database.execute("SELECT count(*) FROM journal WHERE run = ?", (run,)).fetchone()[0]
    total, now = threads + interrupted, int(time.time() * 1000)
    begun = time.monotonic()
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {total})"
    # A run is interrupted if its number is above `threads`; then its journal ends in the middle.
    name = lambda what: f"printf('{what}-%012d', i)"
    database.execute("BEGIN")
    database.execute(
        f"""INSERT INTO threads (id, name, title, messages, created_ms, updated_ms, user, bytes, fence)
            {numbers} SELECT {thread} + i, {name("t")}, 'Question number ' || i || CASE i WHEN 7 THEN ' zanzibar' ELSE '' END, CASE WHEN i > {threads} THEN 1 ELSE messages END,
                {now} - 1000 * ({total} - i) - 500, {now} - 1000 * ({total} - i), user, bytes, 1 FROM n, threads WHERE threads.id = {thread}"""
    )
    database.execute(
        f"""INSERT INTO runs (id, name, thread, flow, parent, title, status, outcome, created_ms, updated_ms)
            {numbers} SELECT 1000 + {run} + i, {name("r")}, {thread} + i, flow, NULL, title, CASE WHEN i > {threads} THEN 'running' ELSE status END,
                CASE WHEN i > {threads} THEN NULL ELSE outcome END, {now} - 1000 * ({total} - i) - 500, {now} - 1000 * ({total} - i) FROM n, runs WHERE runs.id = {run}"""
    )
    database.execute(
        f"""INSERT INTO messages (thread, seq, run, role, content, created_ms)
            {numbers} SELECT {thread} + i, seq, 1000 + {run} + i, role, content, {now} - 1000 * ({total} - i) FROM n JOIN messages ON messages.thread = {thread}
            WHERE i <= {threads} OR seq = 0"""
    )
    renamed = f"CAST(replace(replace(CAST(bytes AS TEXT), '{run_name}', {name('r')}), '{thread_name}', {name('t')}) AS BLOB)"
    database.execute(
        f"""INSERT INTO journal (run, seq, at_ms, bytes)
            {numbers} SELECT 1000 + {run} + i, seq, {now} - 1000 * ({total} - i), {renamed} FROM n JOIN journal ON journal.run = {run}
            WHERE seq = 0 OR (i > {threads} AND seq < {lines // 3}) OR (i <= {threads} AND i > {threads - WHOLE})"""
    )
    database.execute("UPDATE stored SET bytes = (SELECT sum(bytes) FROM threads WHERE threads.user = stored.user)")
    database.execute("COMMIT")
    database.close()
    print(f"   {total:,} threads ({interrupted:,} interrupted) in {time.monotonic() - begun:.0f} s, {path.stat().st_size / 1e9:.2f} GB")


def median_ms(act):
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        act()
        times.append((time.perf_counter() - begun) * 1000)
        # What is that slow needs no finer median.
        if times[-1] > 3_000 and len(times) >= 2:
            break
    return statistics.median(times)


def well(server, path, body=None):
    status, reply = server.call(path, body, timeout=300)
    assert status in (200, 201), (path, status, reply)
    return reply


def serve(home):
    """All these threads belong to one user, who has more than a server allows by default."""
    home.folder.joinpath("limits.toml").write_text("[server]\nstored_bytes_max = 1099511627776\n")
    return home.serve("sample", extra={"BATON_CONFIG": str(home.folder / "limits.toml")})


def measure(home, threads):
    begun = time.monotonic()
    server = serve(home)
    found = {"serve": (time.monotonic() - begun) * 1000}
    cards = well(server, "/api/threads?limit=50")
    newest = cards["threads"][0]["thread"] if "thread" in cards["threads"][0] else cards["threads"][0]["id"]
    found["list"] = median_ms(lambda: well(server, "/api/threads?limit=50"))
    found["search, common word"] = median_ms(lambda: well(server, "/api/threads?q=question"))
    found["search, rare word"] = median_ms(lambda: well(server, "/api/threads?q=zanzibar"))
    found["search, no hit"] = median_ms(lambda: well(server, "/api/threads?q=xylophone"))
    found["open"] = median_ms(lambda: well(server, f"/api/threads/t-{threads:012d}"))
    found["start"] = median_ms(lambda: server.start())
    found["start and end"] = median_ms(lambda: server.wait(server.start()))
    # A retention that deletes nine threads of ten, while runs are started.
    prune = subprocess.Popen([os.environ["BATON_BIN"], "threads", "prune", "--keep", str(threads // 10)], env=home.environment("sample"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    begun, worst = time.monotonic(), []
    while prune.poll() is None and time.monotonic() - begun < 60:
        at = time.perf_counter()
        server.start()
        worst.append((time.perf_counter() - at) * 1000)
    found["start while pruning"] = statistics.median(worst) if worst else 0.0
    found["start while pruning, slowest"] = max(worst, default=0.0)
    prune.kill()
    prune.wait()
    server.kill()
    return found


def recover(home, threads):
    begun = time.monotonic()
    server = serve(home)
    ready = time.monotonic() - begun
    start_ms = median_ms(lambda: server.start())
    path = home.folder / "baton.db"
    left = lambda: sqlite3.connect(f"file:{path}?mode=ro", uri=True).execute("SELECT count(*) FROM runs WHERE status = 'running' AND name LIKE 'r-%'").fetchone()[0]
    eventually("all interrupted runs have ended", lambda: left() == 0, patience=1800, every=1)
    took = time.monotonic() - begun
    bad = sqlite3.connect(f"file:{path}?mode=ro", uri=True).execute("SELECT count(*) FROM runs WHERE status = 'failed'").fetchone()[0]
    assert bad == 0, f"{bad} runs failed"
    server.kill()
    return {"ready after": ready * 1000, "start while recovering": start_ms, "recovered, per run": took * 1000 / INTERRUPTED}


if __name__ == "__main__":
    few, many = {}, {}
    for found, threads in ((few, FEW), (many, THREADS)):
        with Home(False) as home:
            build(home, threads, INTERRUPTED)
            found.update(recover(home, threads))
            found.update(measure(home, threads))
    print(f"   {'':32} {FEW:>10,} {THREADS:>10,}   ratio")
    slow = []
    for name, before in few.items():
        after = many[name]
        is_slow = after > RATIO_MAX * before + NOISE_MS
        slow += [name] if is_slow else []
        print(f"   {name:32} {before:8.1f} ms {after:8.1f} ms {after / max(before, 0.01):7.2f}{'  slower than allowed' if is_slow else ''}")
    print(json.dumps({"threads": THREADS, "interrupted": INTERRUPTED, "few_ms": few, "many_ms": many}))
    sys.exit(1 if slow else 0)
