"""What the scripts with several hosts or gateways share: a command that is run, a wait that ends, a table."""
import subprocess
import time

from common import need


def run(*args, **more):
    return subprocess.run([str(a) for a in args], stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)


def until(what, probe, limit=30):
    """Polls until the probe gives something true, which is given back."""
    end = time.monotonic() + limit
    while not (found := probe()):
        need(time.monotonic() < end, f"{what}: not within {limit} s")
        time.sleep(0.05)
    return found


def table(head, rows):
    """Prints rows below their names, each column as wide as it has to be."""
    cells = [[str(c) for c in row] for row in [head, *rows]]
    wide = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for row in cells:
        print("  " + "  ".join(c.ljust(w) for c, w in zip(row, wide)).rstrip(), flush=True)
