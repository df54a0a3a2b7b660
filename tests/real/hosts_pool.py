"""The pool among the hosts of `hosts`: a gateway on a, workers on b and c that join it over TLS.

b's clock is 60 s behind a's and c's is 60 s ahead, all the time. b's link is cut for longer than its heartbeats live.
"""
import datetime
import json
import os
import subprocess
import threading
import time

from basics import run, table, until
from common import need

REGISTRY, GATEWAY, WORKER = 9090, 4000, 9100
TTL, IDLE, CUT = 4, 8, 14
SKEW = {"b": -60, "c": 60}
PATH = "/v1/chat/completions"


def other_clock(seconds):
    """What makes a process take the time for so much later. `faketime` itself would stay in front of the process, and
    be what a signal ends."""
    told = run("faketime", "-f", f"{seconds:+}s", "env").stdout.splitlines()
    return dict(line.split("=", 1) for line in told if line.startswith(("LD_PRELOAD=", "FAKETIME=")))


class Load:
    """Requests through the gateway, a few at a time, until it is told to end; each with the phase it began in."""

    def __init__(self, pool, threads=3):
        self.pool, self.phase, self.seen, self.over = pool, "whole", [], threading.Event()
        self.threads = [threading.Thread(target=self.ask, daemon=True) for _ in range(threads)]
        for t in self.threads:
            t.start()

    def ask(self):
        while not self.over.wait(0.2):
            phase, begun = self.phase, time.monotonic()
            status, body = self.pool.chat()
            who = self.pool.who(body) if status == 200 else None
            self.seen.append((phase, who, status, time.monotonic() - begun, body))

    def end(self):
        self.over.set()
        for t in self.threads:
            t.join(90)
            need(not t.is_alive(), "a request has no end")

    def show(self):
        rows = []
        for phase in dict.fromkeys(s[0] for s in self.seen):
            of = [s for s in self.seen if s[0] == phase]
            by = {who: sum(s[1] == who for s in of) for who in ("b", "c", None)}
            rows.append([phase, len(of), by["b"], by["c"], by[None], f"{max(s[3] for s in of):.1f}"])
        table(["requests begun while the link was", "all", "by b", "by c", "failed", "slowest s"], rows)


class Pool:
    def __init__(self, net, root, hosts, binary):
        self.net, self.root, self.binary = net, root, binary
        self.addresses = {h.name: a for h, a in hosts}
        self.hosts = {h.name: h for h, _ in hosts}
        self.agents, self.keys, self.procs = {}, {}, []
        self.socket = root / "gateway.sock"

    # The gateway and its callers.

    def start(self):
        config = self.root / "gateway.toml"
        config.write_text(f'stream_idle_timeout = "{IDLE}s"\n[pool]\nlisten = "{self.addresses["a"]}:{REGISTRY}"\n'
                          f'heartbeat_ttl = "{TTL}s"\nheartbeat_interval = "1s"\nsweep_interval = "1s"\n')
        self.spawn("gateway", "a", {}, self.binary, "--socket", self.socket, "serve", "--config", config,
                   "--engine", f"gateway={GATEWAY}")
        until("the gateway answers", lambda: self.control("nodes", "list").returncode == 0)

    def env(self, name):
        home = self.root / f"home-{name}"
        home.mkdir(exist_ok=True)
        return {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_RUNTIME_DIR": str(home),
                "NVPAIR_PROXY_DATA_DIR": str(home / "data")}

    def spawn(self, name, host, more, *args):
        with open(self.root / f"{name}.log", "ab") as log:
            p = subprocess.Popen(self.net.inside(host, *args), env=self.env(name) | more, stdin=subprocess.DEVNULL,
                                 stdout=log, stderr=log)
        self.procs.append(p)
        return p

    def log(self, name):
        return (self.root / f"{name}.log").read_text(errors="replace")

    def control(self, *args):
        return run(*self.net.inside("a", self.binary, "--socket", self.socket, "--json", *args), env=self.env("gateway"))

    def node(self, host):
        r = self.control("nodes", "list")
        need(r.returncode == 0, f"nodes list: {r.stderr}")
        found = [n for n in json.loads(r.stdout)["pool"]["nodes"] if n["id"] == f"w{host}"]
        return found[0] if found else {"state": "absent"}

    def chat(self, limit=60):
        return self.hosts["a"].curl(f"http://127.0.0.1:{GATEWAY}{PATH}", limit=limit)

    @staticmethod
    def who(body):
        return json.loads(body.splitlines()[0])["from"]

    # Workers.

    def join(self, host, fingerprint=None, name=None):
        if host not in self.keys:
            r = self.control("nodes", "keys", "create", f"w{host}", "--node-id", f"w{host}", "--allow",
                             self.addresses[host])
            need(r.returncode == 0, r.stderr)
            self.keys[host] = json.loads(r.stdout)
        made, here = self.keys[host], f"{self.addresses[host]}:{WORKER}"
        return self.spawn(
            name or f"agent-{host}", host, {"NODE_KEY": made["key"]} | other_clock(SKEW[host]),
            self.binary, "agent", "--proxy-addr",
            f"{self.addresses['a']}:{REGISTRY}", "--proxy-fingerprint", fingerprint or made["fingerprint"],
            "--node-id", f"w{host}", "--engine", "ollama", "--engine-url", "http://127.0.0.1:9000",
            "--endpoint", f"http://{here}", "--listen", here, "--max-concurrency", "4")

    def stop(self):
        for p in self.procs[::-1]:
            p.terminate()
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()


def healthy(pool, *hosts):
    return all(pool.node(h)["state"] == "healthy" for h in hosts)


class Checks:
    """The checks of the part `pool`, for the class of that name in `hosts`."""

    def pool_another_certificate_is_not_trusted(self):
        self.pool.start()
        agent = self.pool.join("b", "sha256:" + "0" * 64, "agent-distrusts")
        need(agent.wait(30) == 1, f"exit {agent.returncode}")
        need("cannot be trusted" in self.pool.log("agent-distrusts"), self.pool.log("agent-distrusts"))
        need(self.pool.node("b")["state"] == "absent", "it registered")
        key = self.pool.keys["b"]["key"]
        need(key not in self.pool.log("agent-distrusts") + self.pool.log("gateway"), "the key is in a log")

    def pool_workers_with_clocks_a_minute_off_join_and_serve(self):
        for host in SKEW:
            self.pool.agents[host] = self.pool.join(host)
        until("both are healthy", lambda: healthy(self.pool, "b", "c"))
        off = []
        for host, skew in SKEW.items():
            # What the agent itself takes for the time, from its log.
            stamp = self.pool.log(f"agent-{host}").split(" ", 1)[0]
            at = datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
            began = (self.root / f"agent-{host}.log").stat().st_mtime
            need(abs(at - began - skew) < 30, f"the clock of {host} is not {skew} s off: {stamp}")
            off.append(f"{host} {at - began:+.0f} s")
        served = {self.pool.who(self.pool.chat()[1]) for _ in range(8)}
        need(served == {"b", "c"}, served)
        return ", ".join(off)

    def pool_a_link_cut_for_longer_than_the_ttl_costs_what_streams_and_nothing_else(self):
        pool, net, root = self.pool, self.net, self.root
        pause, hold = root / "pause-b", root / "hold-b"
        events, zero = [], time.monotonic()

        def tell(what):
            events.append([f"{time.monotonic() - zero:.1f}", what])
        # One stream on b that has begun, and one request there that has not been answered yet.
        pause.touch()
        body = json.dumps({"model": "m", "messages": [], "stream": True})
        streams = []
        while not streams or pool.who(streams[-1].stdout.readline()) != "b":
            need(len(streams) < 40, "no stream came to b")
            streams.append(subprocess.Popen(
                net.inside("a", "curl", "-sSN", "--noproxy", "*", "-m", "120", "-d", body,
                           f"http://127.0.0.1:{GATEWAY}{PATH}"),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        stream = streams[-1]
        hold.touch()
        waits, before = [], len(self.b.served())

        def wait():
            waits.append(pool.chat(limit=120))
        waiting = []
        while len(self.b.served()) == before:
            need(len(waiting) < 40, "no request came to b")
            waiting.append(threading.Thread(target=wait, daemon=True))
            waiting[-1].start()
            time.sleep(0.3)
        tell("a stream runs on b, and a request waits there")
        load = Load(pool)
        time.sleep(1)

        load.phase = "cut, b still listed"
        net.link("b", "down")
        cut = time.monotonic()
        tell("b's link is cut")
        try:
            until("b is offline", lambda: pool.node("b")["state"] == "offline", 30)
            load.phase = "cut, b offline"
            tell(f"b is OFFLINE: {pool.node('b')['reason']}")
            for t in waiting:
                t.join(60)
            served = [pool.who(body) if status == 200 else (status, body) for status, body in waits]
            need(len(waits) == len(waiting) and set(served) == {"c"}, served)
            tell("what waited on b is answered by c")
            rest, said = stream.communicate(timeout=90)
            need(stream.returncode != 0 and '"done": true' not in rest, f"{stream.returncode} {rest!r}")
            tell(f"the stream on b ends, and its client is told: {said.strip()}")
            time.sleep(max(0, CUT - (time.monotonic() - cut)))
        finally:
            hold.unlink()
            pause.unlink()
            load.phase = "back, b not yet healthy"
            net.link("b", "up")
        up = time.monotonic()
        tell(f"the link is back after {up - cut:.0f} s")
        until("b is healthy again", lambda: healthy(pool, "b", "c"), 60)
        load.phase = "back, b healthy"
        tell("b is HEALTHY again, by itself")
        back = time.monotonic() - up
        need(pool.agents["b"].poll() is None, "its agent ended")

        def by_b():
            return any(s[:2] == ("back, b healthy", "b") for s in load.seen)
        until("b serves again", by_b, 30)
        tell("b serves again")
        until("b's places are free", lambda: pool.node("b")["leases"] <= 3, 60)
        load.end()
        until("nothing is held", lambda: not (pool.node("b")["leases"] or pool.node("c")["leases"]), 60)
        table(["s", "what"], events)
        load.show()
        lost = [s for s in load.seen if s[1] is None]
        need(not lost, f"{len(lost)} of {len(load.seen)} requests failed: {lost[:2]}")
        offline = {s[1] for s in load.seen if s[0] == "cut, b offline"}
        need(offline == {"c"}, f"while b was offline {offline} served")
        return f"{len(load.seen)} requests, none failed; healthy {back:.1f} s after the link was back"

    def pool_a_worker_that_is_told_to_end_drains_and_leaves(self):
        agent = self.pool.agents["c"]
        agent.terminate()
        need(agent.wait(60) == 0, f"exit {agent.returncode}")
        until("c has left", lambda: self.pool.node("c")["state"] == "absent")
        need("no request was cut" in self.pool.log("agent-c"), self.pool.log("agent-c")[-300:])
        need(self.pool.who(self.pool.chat()[1]) == "b", "b does not serve")
