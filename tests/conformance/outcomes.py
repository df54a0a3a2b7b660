"""A pytest plugin: writes 'OUTCOME TEST' lines, one a test, to the file that NVPAIR_OUTCOMES names."""
import os

# A test has up to three reports; the worst of them is its outcome.
RANK = {"passed": 0, "skipped": 1, "failed": 2}
seen = {}


def pytest_runtest_logreport(report):
    seen[report.nodeid] = max(seen.get(report.nodeid, "passed"), report.outcome, key=RANK.get)


def pytest_sessionfinish(session):
    # The workers of pytest-xdist load this too; the reports all come to the one that started them.
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    with open(os.environ["NVPAIR_OUTCOMES"], "w") as f:
        f.writelines(f"{outcome} {test}\n" for test, outcome in sorted(seen.items()))
