"""A slow network between a server and its database: netem in a network of its own where that is permitted, and a proxy of our own that delays every
packet, stops passing anything for a while (as a cut cable), and cuts connections."""
import asyncio
import subprocess
import threading
import time
from urllib.parse import urlsplit

from servers import IS_LONG, Home, can, eventually

DELAY_S = 0.1
# Of a server that others can reach; nothing outside of this machine can.
TOKEN = "a-token-of-the-lab-that-is-long-enough"


class Proxy:
    """Delays both directions; `is_cut` holds everything back, `reset` ends the connections."""

    def __init__(self, to_port, delay_s, host="127.0.0.1"):
        self.to_port, self.delay_s, self.is_cut = to_port, delay_s, False
        self.writers = set()
        self.loop = asyncio.new_event_loop()
        ready = threading.Event()

        def run():
            asyncio.set_event_loop(self.loop)
            self.server = self.loop.run_until_complete(asyncio.start_server(self.accept, host, 0))
            self.port = self.server.sockets[0].getsockname()[1]
            ready.set()
            self.loop.run_forever()

        threading.Thread(target=run, daemon=True).start()
        ready.wait()

    async def accept(self, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.to_port)
        except OSError:
            writer.close()
            return
        self.writers |= {writer, far_writer}
        await asyncio.gather(self.pass_on(reader, far_writer), self.pass_on(far_reader, writer), return_exceptions=True)
        self.writers -= {writer, far_writer}

    async def pass_on(self, reader, writer):
        queue = asyncio.Queue(maxsize=4096)

        async def deliver():
            while (item := await queue.get()) is not None:
                due, data = item
                await asyncio.sleep(max(0, due - self.loop.time()))
                while self.is_cut:
                    await asyncio.sleep(0.05)
                writer.write(data)
                await writer.drain()
            writer.close()

        delivery = asyncio.ensure_future(deliver())
        try:
            while data := await reader.read(65536):
                await queue.put((self.loop.time() + self.delay_s, data))
        except OSError:
            pass
        await queue.put(None)
        await delivery

    def reset(self):
        self.loop.call_soon_threadsafe(lambda: [writer.transport.abort() for writer in list(self.writers)])


def slow_and_cut():
    with Home() as home:
        proxy = Proxy(urlsplit(home.url).port, DELAY_S)
        steady = home.script("steady", 'when tool notes.append reply {"n": 1} checkable after 100ms')
        far = home.serve(steady, extra={"BATON_STORE": home.through(proxy.port)})
        near = home.serve(steady)
        runs = [far.start() for _ in range(5)] + [near.start() for _ in range(5)]
        begun = time.monotonic()
        for run in runs:
            far.wait(run)
        slow_s = time.monotonic() - begun
        # Leases last 3 s: a server that is cut off for longer loses its runs to the other one, and finds out.
        runs += [far.start() for _ in range(5)]
        proxy.is_cut = True
        cut_s = 20 if IS_LONG else 8
        begun = time.monotonic()
        for run in runs:
            near.wait(run, patience=cut_s + 60)
        taken_s = time.monotonic() - begun
        time.sleep(max(0, cut_s - taken_s))
        proxy.is_cut = False
        eventually("the server that was cut off works again", lambda: far.wait(far.start()) == "done")
        proxy.reset()
        eventually("and after its connections were reset", lambda: far.wait(far.start()) == "done")
        notes, rows = home.happened("notes.append"), int(home.sql(f"SELECT count(*) FROM {home.schema}.runs"))
        assert notes == rows, f"{notes} notes of {rows} runs"
        print(f"   {2 * DELAY_S:.1f} s a round trip: 10 runs in {slow_s:.1f} s; cut off for {cut_s} s: the other server had all runs after {taken_s:.1f} s; none done twice")


def netem():
    """A server in a network of its own, whose only way to the database and back has 100 ms of delay, jitter and 1 % loss."""
    name, outside, inside = "batonscale", "10.231.77.1", "10.231.77.2"
    if not can("ip", "netns", "add", name):
        print("   netem: not tried, network namespaces are not permitted here (the proxy stands for it)")
        return
    try:
        setup = [
            f"ip link add {name}0 type veth peer name {name}1 netns {name}",
            f"ip addr add {outside}/30 dev {name}0", f"ip link set {name}0 up",
            f"ip -n {name} addr add {inside}/30 dev {name}1", f"ip -n {name} link set {name}1 up", f"ip -n {name} link set lo up",
        ]
        for line in setup:
            subprocess.run(line.split(), check=True)
        slow = [f"tc qdisc add dev {name}0 root netem delay 50ms 10ms loss 1%", f"tc -n {name} qdisc add dev {name}1 root netem delay 50ms 10ms loss 1%"]
        if not all(can(*line.split()) for line in slow):
            print("   netem: this kernel has none; only a network of its own is tried (the proxy stands for the delay)")
        with Home() as home:
            # The database listens on loopback, so this passes on what comes from the other network.
            passes_on = Proxy(urlsplit(home.url).port, 0, outside)
            steady = home.script("steady", 'when tool notes.append reply {"n": 1} checkable after 100ms')
            store = home.through(passes_on.port).replace("@127.0.0.1:", f"@{outside}:") + "&sslmode=disable"
            server = home.serve(steady, before=["ip", "netns", "exec", name], extra={"BATON_STORE": store, "BATON_TOKEN": TOKEN}, args=["--host", inside])
            near = home.serve(steady)
            begun = time.monotonic()
            runs = [server.start() for _ in range(5)]
            for run in runs:
                near.wait(run)
            took = time.monotonic() - begun
            assert near.metrics()["baton_runs_taken_over_total"] == 0, "runs were taken from a server that is only slow"
            # The cable is pulled: the other server has its runs, and it finds out when it is back.
            runs = [server.start() for _ in range(3)]
            subprocess.run(["ip", "link", "set", f"{name}0", "down"], check=True)
            begun = time.monotonic()
            for run in runs:
                near.wait(run)
            cut_s = time.monotonic() - begun
            subprocess.run(["ip", "link", "set", f"{name}0", "up"], check=True)
            eventually("the server works again", lambda: near.wait(server.start()) == "done")
            notes, rows = home.happened("notes.append"), int(home.sql(f"SELECT count(*) FROM {home.schema}.runs"))
            assert notes == rows, f"{notes} notes of {rows} runs"
            print(f"   a network of its own: 5 runs in {took:.1f} s; its link taken down: the other server had its runs after {cut_s:.1f} s; none done twice")
    finally:
        can("ip", "netns", "del", name)
        can("ip", "link", "del", f"{name}0")


if __name__ == "__main__":
    slow_and_cut()
    netem()
