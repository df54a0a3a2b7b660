"""What `run`, its parts and `clients` share: installing once, counting checks, waiting, one streaming request, the SDK
checks, a kill under load.

Knows nothing of the processes of a run; those are `run`'s and each part's own.
"""
import fcntl
import hashlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
STREAMS = 20
CACHE = Path(os.environ.get("REAL_CACHE") or
             Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nvpair-proxy" / "real")


def once(name, packages, version, install):
    """Installs into CACHE/NAME-HASH once; two runs at the same time wait for each other."""
    key = hashlib.sha256(" ".join([*packages, version]).encode()).hexdigest()[:12]
    dest = CACHE / f"{name}-{key}"
    done = dest / ".ok"
    if done.exists():
        return dest
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f".lock-{name}", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists():
            return dest
        shutil.rmtree(dest, ignore_errors=True)
        t = time.time()
        for command in install(dest):
            r = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if r.returncode:
                print(f"{command[0]} failed:\n{r.stderr[-1500:]}", file=sys.stderr)
                sys.exit(3)
        done.write_text(" ".join(packages))
        print(f"installed {' '.join(packages)} in {time.time()-t:.1f}s", file=sys.stderr)
    return dest


class Tally:
    passed = failed = 0

    def line(self, verdict, part, check, seconds, detail):
        self.passed += verdict == "PASS"
        self.failed += verdict == "FAIL"
        print(verdict, part, check, f"{seconds:.2f}", " ".join(str(detail).split())[:220], flush=True)

    def check(self, part, name, body):
        """Runs one check; its return value is the detail. True when it passed."""
        t = time.monotonic()
        try:
            verdict, detail = "PASS", body()
        except Exception as e:                       # any failure of a check is a FAIL line, and the run goes on
            verdict, detail = "FAIL", f"{type(e).__name__}: {e}"
        self.line(verdict, part, name, time.monotonic() - t, detail)
        return verdict == "PASS"


def need(condition, message):
    if not condition:
        raise AssertionError(message)


def free_ports(n):
    """Ports that are free on both loopbacks now; all are held until all are known, so they differ."""
    held, found = [], []
    while len(found) < n:
        a = socket.socket(socket.AF_INET)
        a.bind(("127.0.0.1", 0))
        held.append(a)
        port = a.getsockname()[1]
        try:
            b = socket.socket(socket.AF_INET6)
            held.append(b)
            b.bind(("::1", port))
        except OSError as e:
            if e.errno == 98:                        # taken; anything else means there is no IPv6 here
                continue
        found.append(port)
    for s in held:
        s.close()
    return found


def until(what, limit, probe):
    """Polls until the probe gives something true; says the last thing it saw when the time is over."""
    end, seen = time.monotonic() + limit, None
    while time.monotonic() < end:
        try:
            ok, seen = probe()
            if ok:
                return seen
        except (OSError, ValueError, KeyError, http.client.HTTPException, subprocess.SubprocessError) as e:
            seen = f"{type(e).__name__}: {e}"
        time.sleep(0.1)
    raise TimeoutError(f"{what}: not after {limit} s; last seen: {seen}")


def get_json(port, path):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        c.request("GET", path)
        r = c.getresponse()
        body = r.read()
        if r.status != 200:
            raise ValueError(f"status {r.status}: {body[:120]!r}")
        return json.loads(body)
    finally:
        c.close()


def sdk(tally, part, port, *args):
    """The `clients` checks, their lines taken over with the part in front."""
    p = subprocess.Popen([str(HERE / "clients"), "smoke", f"http://127.0.0.1:{port}", *args],
                         stdout=subprocess.PIPE, text=True)
    seen = 0
    for line in p.stdout:
        verdict, *rest = line.split(" ", 4)
        if verdict in ("PASS", "FAIL", "SKIP") and len(rest) >= 3:
            seen += 1
            tally.line(verdict, part, f"{rest[0]}.{rest[1]}", float(rest[2]), rest[3] if len(rest) > 3 else "")
    if p.wait() not in (0, 1) or not seen:
        tally.line("FAIL", part, "clients", 0, f"exit {p.returncode} after {seen} checks")


class Stream(threading.Thread):
    """One streaming request, read to its end, with the moment of its first body byte."""

    def __init__(self, port, path, body, mark):
        super().__init__(daemon=True)
        self.args, self.mark = (port, path, body), mark
        self.status, self.first, self.body, self.error = None, None, b"", None
        self.headers = {}

    def run(self):
        port, path, body = self.args
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=180)
        try:
            c.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            r = c.getresponse()
            self.status, self.headers = r.status, r.headers
            while chunk := r.read1(65536):
                self.first = self.first or time.monotonic()
                self.body += chunk
        except (OSError, http.client.HTTPException) as e:
            self.error = f"{type(e).__name__}: {e}"
        finally:
            c.close()

    def whole(self):
        return self.error is None and self.status == 200 and self.mark in self.body

    def lost(self):
        """It failed though no byte of output had come: the router had every right to try again."""
        return not self.whole() and (self.first is None or self.status != 200)

    def cut_cleanly(self):
        """Output came, its end did not, and the client was told nothing."""
        return not self.whole() and not self.lost() and self.error is None


def kill_under_load(tally, part, port, path, body, mark, slots, kill, left):
    """Streams at once, one engine killed while it gives output to some and makes others wait; the streams, ended."""
    streams = [Stream(port, path, body, mark) for _ in range(STREAMS)]
    for s in streams:
        s.start()

    def begun():
        n = sum(s.first is not None for s in streams)
        return n >= min(slots, 2), n
    try:
        started = until("output of the first streams", 60, begun)
        killed = time.monotonic()
        kill()
    except Exception as e:
        tally.line("FAIL", part, "kill", 0, f"{type(e).__name__}: {e}")
        return []
    for s in streams:
        s.join(max(1.0, killed + 180 - time.monotonic()))
    took = time.monotonic() - killed
    whole = [s for s in streams if s.whole()]
    lost = [s for s in streams if s.lost()]
    cut = [s for s in streams if not s.whole() and not s.lost()]
    after = [s for s in whole if s.first > killed]
    why = "; ".join(sorted({f"{s.status} {s.error or s.body[:100]!r}" for s in lost}))
    detail = f"{len(whole)} of {STREAMS} whole, {len(after)} of them begun after the kill on {left}; {len(cut)} cut"

    def say(name, ok, text):
        tally.line("PASS" if ok else "FAIL", part, name, took, text)
    say("none-lost", not lost and len(after) > 0, f"{len(lost)} lost {why}; {started} had output at the kill; {detail}")
    say("only-running-cut", len(cut) <= slots, f"{len(cut)} cut, the killed engine had {slots} slots")
    say("a-cut-is-told", not any(s.cut_cleanly() for s in cut), f"{len(cut)} cut, each with an error: "
        + "; ".join(sorted({str(s.error) for s in cut})))
    return streams
