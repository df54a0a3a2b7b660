"""The part `pool` of `run`: two gateways over one real Redis, four agents with real llama-servers, and what goes wrong.

A table says what became of every request: whole; cut = its output began and its client was told that it did not end;
refused = an answer of ours that says why; lost = none of these.
"""
import http.client
import json
import shutil
import signal
import subprocess
import threading
import time

from basics import run, table, until
from common import Stream, free_ports, need

MODEL, SLOTS, TTL, LEASE = "smollm2", 2, 4, 6
PATH = "/v1/chat/completions"
WORKERS = ["w1", "w2", "w3", "w4"]


def chat(tokens):
    # ignore_eos makes the length certain.
    return {"model": MODEL, "stream": True, "max_tokens": tokens, "ignore_eos": True,
            "messages": [{"role": "user", "content": "Write about the sea."}]}


class Gateway:
    def __init__(self, pool, name, facade, registry):
        self.pool, self.name, self.facade, self.registry = pool, name, facade, registry
        self.socket = pool.dir / f"{name}.sock"
        self.home = pool.dir / f"home-{name}"
        self.home.mkdir()
        self.config = pool.dir / f"{name}.toml"
        self.config.write_text(
            f'response_headers = true\n[pool]\nlisten = "127.0.0.1:{registry}"\nstore = "redis://127.0.0.1:{pool.redis_port}"\n'
            f'heartbeat_interval = "1s"\nheartbeat_ttl = "{TTL}s"\nsweep_interval = "1s"\nlease_ttl = "{LEASE}s"\n'
            f'lease_renewal = "2s"\n')

    def start(self):
        self.process = self.pool.spawn(self.name, self.home, {}, "--socket", self.socket, "serve", "--config", self.config,
                                       "--engine", f"gateway={self.facade}")
        until(f"{self.name} answers", lambda: self.call("status").returncode == 0)

    def call(self, *args):
        return run(self.pool.rig.bin, "--socket", self.socket, "--json", *args, env=self.pool.env(self.home), timeout=90)

    def json(self, *args):
        r = self.call(*args)
        need(r.returncode == 0, f"{self.name}: {' '.join(args)}: exit {r.returncode}: {r.stderr[-300:]}")
        return json.loads(r.stdout)

    def nodes(self):
        return {n["id"]: n for n in self.json("nodes", "list")["pool"]["nodes"]}

    def order(self):
        """Nodes in the order in which a request would be tried now."""
        return [c["node"] for c in self.json("route", "--engine", "gateway", "--model", MODEL)["candidates"]]

    def streams(self, count, tokens):
        made = [Stream(self.facade, PATH, chat(tokens), b"data: [DONE]") for _ in range(count)]
        for s in made:
            s.start()
        return made


def node_of(stream):
    return stream.headers.get("x-nvpair-node")


def ended(streams, limit=180):
    end = time.monotonic() + limit
    for s in streams:
        s.join(max(0.1, end - time.monotonic()))
        need(not s.is_alive(), f"a request has no end within {limit} s")
    return streams


def has_output(streams, count):
    return lambda: sum(s.first is not None for s in streams) >= min(count, len(streams))


class Pool:
    def __init__(self, rig, tally):
        self.rig, self.tally, self.dir, self.rows = rig, tally, rig.dir / "pool", []
        self.dir.mkdir()
        self.procs, self.keys, self.agents = [], {}, {}
        self.redis_port, *ports = free_ports(9)
        self.engines = dict(zip(WORKERS, ports[:4]))
        self.g1, self.g2 = Gateway(self, "g1", *ports[4:6]), Gateway(self, "g2", *ports[6:8])
        self.homes = {w: self.g1 if w in WORKERS[:2] else self.g2 for w in WORKERS}

    # Processes.

    def env(self, home):
        own = {k: v for k, v in self.rig.env.items() if not k.startswith("XDG_")}
        return own | {"HOME": str(home), "XDG_RUNTIME_DIR": str(home)} | {
            f"XDG_{k}_HOME": str(home / k.lower()) for k in ("CONFIG", "DATA", "STATE", "CACHE")}

    def spawn(self, name, home, more, *args, binary=None):
        with open(self.dir / f"{name}.log", "ab") as log:
            p = subprocess.Popen([str(a) for a in (binary or self.rig.bin, *args)], env=self.env(home) | more,
                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.dir)
        self.procs.append(p)
        return p

    def log(self, name):
        return (self.dir / f"{name}.log").read_text(errors="replace")

    def start_redis(self):
        self.redis = self.spawn("redis", self.dir, {}, "--port", self.redis_port, "--bind", "127.0.0.1", "--save", "",
                                "--appendonly", "no", "--dir", self.dir, binary="redis-server")
        ping = ["redis-cli", "-p", self.redis_port, "ping"]
        until("redis answers", lambda: run(*ping).stdout.strip() == "PONG")

    def start_agent(self, worker):
        url = f"http://127.0.0.1:{self.engines[worker]}"
        self.agents[worker] = self.spawn(
            worker, self.dir, {"NODE_KEY": self.keys[worker]}, "agent", "--proxy-addr",
            f"127.0.0.1:{self.homes[worker].registry}", "--node-id", worker, "--engine", "llamacpp", "--engine-url", url,
            "--endpoint", url)

    def stop(self):
        for p in self.procs[::-1]:
            if p.poll() is None:
                p.kill()
            p.wait()

    def healthy(self, *workers, at=None):
        def look():
            for g in at or (self.g1, self.g2):
                nodes = g.nodes()
                if any(nodes.get(w, {}).get("state") != "healthy" for w in workers):
                    return False
            return True
        return look

    def row(self, what, streams, after):
        whole = [s for s in streams if s.whole()]
        refused = [s for s in streams if not s.whole() and s.status not in (None, 200)]
        cut = [s for s in streams if not s.whole() and s.status == 200 and s.first and not s.cut_cleanly()]
        lost = [s for s in streams if s not in whole and s not in refused and s not in cut]
        self.rows.append([what, len(streams), len(whole), len(cut), len(refused), len(lost), after])
        return len(whole), len(cut), len(refused), len(lost)

    # What is done to them.

    def ready(self):
        need(shutil.which("redis-server") and shutil.which("redis-cli"), "no redis-server and redis-cli (package redis)")
        self.start_redis()
        self.rig.engines("start", ",".join(map(str, self.engines.values())), "--alias", MODEL, "--parallel", SLOTS)
        self.g1.start()
        self.g2.start()
        for worker in WORKERS:
            made = self.g1.json("nodes", "keys", "create", worker, "--node-id", worker, "--allow", "127.0.0.1")
            self.keys[worker] = made["key"]
            self.start_agent(worker)
        until("four healthy nodes at both gateways", self.healthy(*WORKERS), 60)
        return "4 llama-servers, 4 agents, 2 gateways, 1 Redis"

    def share(self):
        most, over = {}, threading.Event()

        def watch():
            while not over.is_set():
                for w, n in self.g1.nodes().items():
                    most[w] = max(most.get(w, 0), n["leases"])
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        streams = ended(self.g1.streams(8, 24) + self.g2.streams(8, 24))
        over.set()
        watcher.join()
        by = {w: sum(node_of(s) == w for s in streams) for w in WORKERS}
        got = self.row("nothing, 16 requests for 8 places", streams, f"by node {by}, leases at most {most}")
        need(got[0] == 16, [(s.status, s.body[:200]) for s in streams if not s.whole()])
        need(all(by.values()), f"one was left out: {by}")
        need(all(n <= SLOTS for n in most.values()), f"more leases than places: {most}")

    def kill_a_gateway(self):
        theirs, ours = self.g1.streams(4, 64), self.g2.streams(4, 64)
        until("output from both", lambda: has_output(theirs, 2)() and has_output(ours, 2)(), 60)
        self.g1.process.kill()
        self.g1.process.wait()
        killed = time.monotonic()
        # Their workers beat at the dead one alone.
        until("w1 and w2 are offline", lambda: all(self.g2.nodes()[w]["state"] == "offline" for w in WORKERS[:2]), 30)
        offline = time.monotonic() - killed
        ended(theirs + ours)
        until("its leases run out", lambda: not any(n["leases"] for n in self.g2.nodes().values()), 60)
        free = time.monotonic() - killed
        self.g1.start()
        began = time.monotonic()
        until("all are healthy at both", self.healthy(*WORKERS), 60)
        back = time.monotonic() - began
        one = self.row("kill -9 of a gateway: its requests", theirs,
                       f"w1, w2 OFFLINE after {offline:.1f} s; no lease left after {free:.1f} s")
        two = self.row("  those of the other gateway", ours, f"HEALTHY {back:.1f} s after its restart")
        need(one[3] == 0 or all(s.first is None for s in theirs if not s.whole() and not s.error), f"lost {one}")
        need(not any(s.cut_cleanly() for s in theirs), "a cut stream looks whole")
        need(two == (4, 0, 0, 0), two)
        need(ended(self.g1.streams(1, 4))[0].whole(), "the restarted gateway does not serve")

    def stop_redis(self):
        streams = self.g1.streams(3, 64) + self.g2.streams(3, 64)
        until("output of all", has_output(streams, 6), 60)
        self.redis.kill()
        self.redis.wait()
        down = time.monotonic()
        new = [g.streams(2, 4) for g in (self.g1, self.g2)]
        new = ended(new[0] + new[1])
        refused = time.monotonic() - down
        ended(streams)
        started = self.row("kill -9 of Redis: requests that had begun", streams, "")
        came = self.row("  that came while it was down", new, f"the last answer after {refused:.1f} s: {new[0].body[:160]!r}")
        # Longer than the heartbeats live.
        time.sleep(max(0, TTL + 1 - (time.monotonic() - down)))
        self.start_redis()
        up = time.monotonic()
        until("all are healthy at both", self.healthy(*WORKERS), 90)
        back = time.monotonic() - up
        after = ended(self.g1.streams(4, 8) + self.g2.streams(4, 8))
        served = self.row("  after it is back, empty", after, f"4 nodes HEALTHY after {back:.1f} s, keys put back")
        need(started == (6, 0, 0, 0), f"what had begun: {started}")
        need(came[3] == 0 and {s.status for s in new} <= {503}, f"{came} {[s.status for s in new]}")
        need(all(b"store" in s.body or b"pool" in s.body for s in new), new[0].body[:200])
        need(served == (8, 0, 0, 0), served)
        need(all(p.poll() is None for p in (*self.agents.values(), self.g1.process, self.g2.process)), "something ended")

    def drain(self):
        streams, over, lock = [], threading.Event(), threading.Lock()

        def load(gateway):
            while not over.is_set():
                (s,) = gateway.streams(1, 12)
                s.begun = time.monotonic()
                s.join()
                with lock:
                    streams.append(s)
        threads = [threading.Thread(target=load, args=(g,), daemon=True) for g in (self.g1, self.g2) for _ in range(3)]
        for t in threads:
            t.start()
        until("w3 serves", lambda: any(node_of(s) == "w3" for s in list(streams)), 60)
        t = time.monotonic()
        r = self.g1.call("nodes", "drain", "w3", "--wait")
        drained = time.monotonic()
        need(r.returncode == 0, r.stderr)
        need(self.g1.nodes()["w3"]["leases"] == 0, "a request is left there")
        until("ten more", lambda: sum(s.begun > drained for s in list(streams)) >= 10, 90)
        on = sum(node_of(s) == "w3" and s.begun > drained for s in list(streams))
        self.g2.json("nodes", "resume", "w3")
        resumed = time.monotonic()
        until("w3 serves again", lambda: any(node_of(s) == "w3" and s.begun > resumed for s in list(streams)), 90)
        over.set()
        for t_ in threads:
            t_.join(120)
        got = self.row("a node is drained under load, and resumed", streams,
                       f"drained after {drained - t:.1f} s; {on} began there while it was")
        need(got[1:] == (0, 0, 0) and on == 0, f"{got}, {on} began on the drained node")

    def revoke(self):
        held = []
        while not any(node_of(s) == "w4" for s in held):
            need(len(held) < 12, "no stream came to w4")
            held += self.g1.streams(2, 96)
            until("output", has_output(held, len(held)), 90)
        self.g1.json("nodes", "keys", "revoke", "w4")
        t = time.monotonic()
        until("w4 is gone at both", lambda: all("w4" not in g.nodes() for g in (self.g1, self.g2)), 20)
        gone = time.monotonic() - t
        new = ended(self.g1.streams(3, 8) + self.g2.streams(3, 8))
        ended(held)
        code = self.agents["w4"].wait(30)
        one = self.row("a key is revoked: what had begun", held, f"gone at both gateways after {gone:.1f} s; agent's exit {code}")
        two = self.row("  what came then", new, f"on w4: {sum(node_of(s) == 'w4' for s in new)}")
        need(one[1:] == (0, 0, 0) and two[0] == 6, f"{one} {two}")
        need(code == 4 and not any(node_of(s) == "w4" for s in new), f"exit {code}")

    def registry(self, method, params):
        c = http.client.HTTPConnection("127.0.0.1", self.g1.registry, timeout=20)
        try:
            c.request("POST", "/", json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
                      {"Content-Type": "application/json", "Authorization": f"Bearer {self.keys['w2']}"})
            return json.loads(c.getresponse().read())
        finally:
            c.close()

    def lie(self):
        self.agents["w2"].send_signal(signal.SIGTERM)
        need(self.agents["w2"].wait(60) == 0, "the agent of w2 does not end")
        models = [{"id": MODEL, "is_warm": True}]
        told = self.registry("node/register", {
            "node_id": "w2", "endpoint": f"http://127.0.0.1:{self.engines['w2']}", "engine": "llamacpp", "models": models,
            "max_concurrency": 64, "base_weight": 1000, "agent_version": "a liar"})
        session, seq, claims, over = told["result"]["session"], [0], {}, threading.Event()
        lock = threading.Lock()

        def beat(**more):
            with lock:
                seq[0] += 1
                return self.registry("node/heartbeat", {
                    "node_id": "w2", "session": session, "seq": seq[0], "draining": False, "active_requests": 0,
                    "queue_depth": 0, "models": models, **claims, **more})

        def beats():
            while not over.wait(1):
                beat()
        threading.Thread(target=beats, daemon=True).start()
        try:
            others = ["w1", "w3"]
            until("all are healthy", self.healthy("w2", *others), 30)

            def round_(what, say):
                beat()
                streams = ended(self.g1.streams(6, 12) + self.g2.streams(6, 12))
                by = {w: sum(node_of(s) == w for s in streams) for w in ["w2", *others]}
                got = self.row(what, streams, say(by))
                need(got == (12, 0, 0, 0), got)
                return by
            idle = round_("a worker lies: 64 places of 2, weight 1000, never busy", lambda by: f"by node {by}")
            claims.update(active_requests=64)
            beat()
            until("its claim is routed by", lambda: all("w2" not in g.order() for g in (self.g1, self.g2)))
            full = round_("  it says it is full", lambda by: f"by node {by}")
            claims.clear()
            claims.update(gpu_temperature_c=150)
            beat()
            until("its claim is routed by", lambda: all(
                g.order()[-1:] == ["w2"] and g.nodes()["w2"]["state"] == "suspect" for g in (self.g1, self.g2)))
            # What a worker told of its last requests holds until its next beat.
            until("the others told that they are idle", lambda: not any(
                g.nodes()[w][n] for g in (self.g1, self.g2) for w in others for n in ("leases", "active_requests")))
            hot = ended(self.g1.streams(3, 12))
            got = self.row("  it says it is 150 °C", hot, f"SUSPECT; on w2: {sum(node_of(s) == 'w2' for s in hot)}")
            need(got == (3, 0, 0, 0) and not any(node_of(s) == "w2" for s in hot), got)
            bad = [beat(**b).get("error", {}).get("code") for b in (
                {"active_requests": -1}, {"gpu_temperature_c": 1e300}, {"gpu_utilization_percent": -5},
                {"queue_depth": "many"}, {"models": [{"id": "x" * 5000}]})]
            need(bad == [-32602] * 5, f"figures that cannot be are taken: {bad}")
            need(full["w2"] == 0 and idle["w2"] > 0, f"{idle} {full}")
            return f"impossible figures: {bad}"
        finally:
            over.set()


def part(rig, tally):
    pool = Pool(rig, tally)
    try:
        if not tally.check("pool", "ready", pool.ready):
            return
        for name in ["share", "kill_a_gateway", "stop_redis", "drain", "revoke", "lie"]:
            tally.check("pool", name.replace("_", "-"), getattr(pool, name))
        table(["what was done", "requests", "whole", "cut", "refused", "lost", "after it"], pool.rows)
    finally:
        pool.stop()
