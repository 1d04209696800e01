"""An effect that crashes its worker every time: the other runs end, it is given up after some attempts, and that is reported to the operator."""
import time

import restate
from restate import Worker

from servers import Home

TAKEOVERS_MAX = 3

if __name__ == "__main__":
    with Home() as home:
        home.folder.joinpath("baton.toml").write_text(f"[server]\ntakeovers_max = {TAKEOVERS_MAX}\n")
        config = {"BATON_CONFIG": str(home.folder / "baton.toml")}
        # Only the question with this word reaches the rule that ends the process.
        script = home.script("poison", "when model plan text~poison abort after 300ms", 'when model answer reply "slow" after 1500ms')
        node = restate.single(home.folder / "restate")
        try:
            port = restate.free_port()
            worker = lambda: Worker(home, node.admin, port, script, extra=config)
            workers, logs, crashes = [worker(), worker()], [], 0
            server = restate.serve(home, node.ingress, script, config)
            others = [server.start() for _ in range(5)]
            bad = server.start(question="Drink the poison?")
            until = time.monotonic() + 240
            while server.status(bad) != "failed":
                assert time.monotonic() < until, f"still crashing after {crashes} times"
                for n, running in enumerate(workers):
                    if running.process.poll() is not None:
                        logs.append(running.log.read_text())
                        crashes += 1
                        workers[n] = worker()
                time.sleep(0.1)
            assert crashes == TAKEOVERS_MAX + 1, f"{crashes} crashes"
            for run in [*others, server.start()]:
                server.wait(run)
            assert home.happened("notes.append") == len(others) + 1
            logs += [running.log.read_text() for running in workers]
            assert any(bad in log and "not performed any more" in log for log in logs), "no log names the run"
            _, row = server.call(f"/api/runs/{bad}")
            assert "times in a row" in str(row), row
            code, out, err = home.baton("doctor", "--json", script=script, extra=config)
            assert bad in out, (out, err)
            print(f"   Restate: given up after {crashes} crashes; {len(others)} others ended well")
        finally:
            node.kill()
