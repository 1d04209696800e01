"""The same scripted flows on the three engines: a server on SQLite, servers on Postgres, and workers of a Restate server. The process that drives the run is
killed right after each durable event (between two steps) and in the middle of each effect (inside a step). Whatever is killed, the durable events, the
messages and the outcome are those of a run that nothing disturbed, and every change outside happened once."""
import json
import re
import sys
import time
from urllib.parse import quote

import restate

from servers import IS_LONG, SAMPLE, Home

FLOWS = ("research", "team")
# So long that a kill in the middle hits it, and short enough for some hundred runs.
EFFECT_MS = 60
# The short form tries every so-many-th place, each engine other ones.
STRIDE = 1 if IS_LONG else 7
# What differs between two runs of the same flow.
OWN = {"run", "thread", "at_ms", "took_us", "elapsed_us", "key", "parent", "path", "created_ms", "updated_ms", "about", "seq", "again_ms", "after_ms"}


def slow_script(home):
    """The sample's world, in which every effect takes a while and mails can be looked up."""
    path = home.folder / "slow.script"
    lines = []
    for line in SAMPLE.splitlines():
        if line.startswith("when "):
            line = re.sub(r" (?<!-)after \d+ms", "", line.replace(" once", " checkable"))
            line += f" after {EFFECT_MS}ms"
        lines.append(line)
    path.write_text("\n".join(lines) + "\n")
    return path


class Sqlite:
    """One server, which is started again after a kill."""

    name = "SQLite"

    def __enter__(self):
        self.home = Home(False)
        self.script = slow_script(self.home)
        self.watches = self.starts = self.home.serve(self.script)
        return self

    def kill(self):
        self.starts.kill()
        self.watches = self.starts = self.home.serve(self.script)

    def __exit__(self, *raised):
        self.home.__exit__(*raised)


class Postgres:
    """Two servers on one database: one drives the run and is killed, the other one takes it over."""

    name = "Postgres"

    def __enter__(self):
        self.home = Home()
        self.script = slow_script(self.home)
        self.starts, self.watches = self.home.serve(self.script), self.home.serve(self.script)
        return self

    def kill(self):
        self.starts.kill()
        # The one that takes over now is the next to be killed.
        self.starts, self.watches = self.watches, self.home.serve(self.script)

    def __exit__(self, *raised):
        self.home.__exit__(*raised)


class Restate:
    """A worker of a Restate server, which is replaced after a kill."""

    name = "Restate"

    def __enter__(self):
        self.home = Home()
        self.script = slow_script(self.home)
        self.node = restate.single(self.home.folder / "restate")
        self.port = restate.free_port()
        self.worker = self.next_worker()
        self.watches = self.starts = restate.serve(self.home, self.node.ingress, self.script)
        return self

    def next_worker(self):
        return restate.Worker(self.home, self.node.admin, self.port, self.script)

    def kill(self):
        self.worker.kill()
        self.worker = self.next_worker()

    def __exit__(self, *raised):
        self.node.kill()
        self.home.__exit__(*raised)


def essence(value):
    if isinstance(value, dict):
        return {name: essence(field) for name, field in value.items() if name not in OWN}
    return [essence(item) for item in value] if isinstance(value, list) else value


def result(engine, run):
    """What is compared: the durable events (effects of one step end in any order), the messages, the outcome."""
    server = engine.watches
    events = [essence(data) for _, event, data in server.events(run) if event == "told"]
    _, row = server.call(f"/api/runs/{quote(run)}")
    _, thread = server.call(f"/api/threads/{quote(row['thread'])}")
    messages = [[message["role"], message["content"]] for message in thread["messages"]]
    return {"events": sorted(json.dumps(event, sort_keys=True) for event in events), "messages": messages, "status": row["status"], "outcome": essence(row.get("outcome"))}


def ended(engine, run):
    # A stream would be cut by a kill of its server.
    engine.watches.wait(run)
    return result(engine, run)


def undisturbed(engine, flow):
    """The result, and the names of its durable events in order: one list of places to kill at."""
    run = engine.starts.start(flow=flow)
    places = [data.get("event") for _, event, data in engine.watches.events(run) if event == "told"]
    return ended(engine, run), places


def killed_at(engine, flow, place, is_inside):
    """Kills after the durable event number `place` has been seen, at once or in the middle of the effect that it began."""
    run = engine.starts.start(flow=flow)
    seen = -1
    stream = engine.watches.events(run)
    for _, event, _ in stream:
        seen += event == "told"
        if seen >= place or event == "end":
            break
    if is_inside:
        time.sleep(EFFECT_MS / 2_000)
    engine.kill()
    stream.close()
    return ended(engine, run)


def difference(found, expected):
    if found == expected:
        return None
    for name in expected:
        if found[name] != expected[name]:
            more = [item for item in found[name] if item not in expected[name]] if isinstance(found[name], list) else found[name]
            less = [item for item in expected[name] if item not in found[name]] if isinstance(found[name], list) else expected[name]
            return f"{name}: {str(more)[:1500]} instead of {str(less)[:1500]}"
    return "?"


def places(names, shift):
    """(place, is_inside): after every event, and inside every effect."""
    every = [(place, False) for place in range(len(names))] + [(place, True) for place, name in enumerate(names) if name == "asked"]
    return every[shift::STRIDE]


if __name__ == "__main__":
    wanted = sys.argv[1:]
    expected, wrong = {}, []
    for shift, kind in enumerate((Sqlite, Postgres, Restate)):
        if wanted and kind.name not in wanted and kind is not Sqlite:
            continue
        with kind() as engine:
            runs = dict.fromkeys(FLOWS, 0)
            for flow in FLOWS:
                found, names = undisturbed(engine, flow)
                runs[flow] += 1
                if flow not in expected:
                    expected[flow] = found, names
                assert found["status"] == "done" and len(names) > 10, (found, names)
                if words := difference(found, expected[flow][0]):
                    wrong.append(f"{kind.name}, {flow}: {words}")
                if wanted and kind.name not in wanted:
                    continue
                # Places of the undisturbed run on SQLite, so that they are the same on all three.
                every = places(expected[flow][1], shift % STRIDE)
                for place, is_inside in every:
                    words = difference(killed_at(engine, flow, place, is_inside), expected[flow][0])
                    runs[flow] += 1
                    if words:
                        wrong.append(f"{kind.name}, {flow}, killed {'inside' if is_inside else 'after'} event {place} ({expected[flow][1][place]}): {words}")
                        print("  ", wrong[-1])
                print(f"   {kind.name}, {flow}: {sum(not inside for _, inside in every)} kills between steps, {sum(inside for _, inside in every)} inside effects", flush=True)
            # Each run of research adds a note; each of team starts one of research and sends a mail.
            happened = engine.home.happened("notes.append"), engine.home.happened("mail.send")
            if happened != (sum(runs.values()), runs["team"]):
                wrong.append(f"{kind.name}: {happened[0]} notes and {happened[1]} mails of {runs}")
    assert not wrong, "\n".join(wrong)
