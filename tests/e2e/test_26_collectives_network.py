"""libmuster over bad networks (docs/collectives.md): right results through loss, delay and reordering, and an error only
when nothing has come for the whole time-out."""

import json
import signal
import time

import pytest
from conftest import BIN_DIR
from console import Watched

RANK = str(BIN_DIR.parent / "tests/programs/collective_rank")
PERF = str(BIN_DIR / "muster_perf")
HOSTS = ["-np", "3", "-H", "n1:2,n2:1"]
DEADLINE_EXCEEDED = 4


def rows_of(text):
    return [json.loads(line.split(">:", 1)[1]) for line in text.splitlines() if ">:{" in line]


def is_right(rows):
    return bool(rows) and all(row["wrong"] == 0 and row["hosts"] == 2 for row in rows)


def perf(hvdrun, operation, largest):
    return hvdrun([*HOSTS, "--quiet", PERF, operation, "-b", "240", "-e", largest, "-f", "32", "-n", "3", "--json"])


@pytest.mark.parametrize("operation", ["allreduce", "alltoall"])
def test_through_loss(hvdrun, cluster, no_leftovers, operation):
    for host in ("n1", "n2"):
        cluster.drop(host, 0.01, direction="in")
    done = perf(hvdrun, operation, "8M")
    assert done.rc == 0, done
    assert is_right(rows_of(done.stdout)), done


@pytest.mark.parametrize("operation", ["allreduce", "broadcast"])
def test_through_delay_and_reordering(hvdrun, cluster, no_leftovers, operation):
    cluster.delay("n2", 2, jitter=1, reorder=0.05, loss=0.002)
    done = perf(hvdrun, operation, "300K")
    assert done.rc == 0, done
    assert is_right(rows_of(done.stdout)), done


def test_an_outage_shorter_than_the_timeout_is_no_error(hvdrun, cluster, no_leftovers):
    job = Watched(hvdrun, cluster, [*HOSTS, "-x", "MUSTER_OPERATION_TIMEOUT=20", PERF, "-b", "240", "-e", "8M", "-f", "32", "-n",
                                    "100", "--json"])
    job.out.wait_for('"bytes":240,')
    cluster.cut("n2")
    # Not to wait for something: so long does nothing pass, and what is under way is lost.
    time.sleep(1)
    assert not job.ended()
    cluster.heal("n2")
    ended = job.end()
    assert ended.rc == 0, ended
    rows = rows_of(ended.stdout)
    assert is_right(rows) and len(rows) == 4, ended


def test_an_outage_longer_than_the_timeout_is_an_error(hvdrun, cluster, no_leftovers):
    job = Watched(hvdrun, cluster, [*HOSTS, "--keep-going", "-x", "MUSTER_OPERATION_TIMEOUT=3", RANK])
    job.out.wait_for(r"<stdout>:pid (\d+)", count=3)
    cut_at = time.time() * 1000
    cluster.cut("n2")
    try:
        failures = job.out.wait_for(r"<stdout>:failed ([0-9.]+) (\d+) (.*)", count=2)
    finally:
        cluster.heal("n2")
    for failure in failures:
        when, code, message = float(failure[1]), int(failure[2]), failure[3]
        assert code == DEADLINE_EXCEEDED and "n2" in message, message
        assert when - cut_at > 2000, f"{message}: {when - cut_at:.0f} ms after the cut"
    job.signal(signal.SIGINT)
    job.end()
