"""Which rank is late, and by how much: from collectives of libmuster, and from heartbeats of any script."""

import re

from conftest import BIN_DIR
from console import Watched
from horovod_programs import python_rank

HOSTS = ["-np", "4", "-H", "n1:2,n2:2"]
LATE = 3  # the rank, on n2

# Steps last 60 ms or so, so all of them are compared.
STEPS = """
import time
import numpy as np
import muster.numpy as hvd
hvd.init()
for step in range(150):
    if hvd.rank() == LATE:
        time.sleep(0.05)
    hvd.allreduce(np.ones(8, np.float32), name="grad")
print("done", flush=True)
""".replace("LATE", str(LATE))

BEATS = """
import os, time
import muster
for step in range(100):
    time.sleep(0.1 if os.environ["MUSTER_RANK"] == "LATE" else 0.05)
    muster.heartbeat(step)
print("done", flush=True)
time.sleep(4 if os.environ["MUSTER_RANK"] == "LATE" else 9)  # agents look every two seconds
""".replace("LATE", str(LATE))


def check_end(text, host="n2"):
    """The line at the end: the host that was late."""
    line = re.search(rf"{host} came last in (\d+) % of (\d+) steps, by ([\d.]+) ms", text)
    assert line, text
    assert int(line[1]) > 80 and int(line[2]) >= 20 and float(line[3]) > 20, line[0]


def test_a_rank_that_is_late_to_every_allreduce(hvdrun, no_leftovers):
    done = hvdrun([*HOSTS, *python_rank(STEPS)])
    assert done.rc == 0 and done.stdout.count("done") == 4, done
    check_end(done.stderr)


def test_status_names_the_rank(hvdrun, cluster, no_leftovers):
    job = Watched(hvdrun, cluster, [*HOSTS, *python_rank(STEPS.replace("range(150)", "range(400)"))])
    wanted = re.compile(rf"late: rank {LATE} \(n2\) came last in \d+ % of \d+ steps, by [\d.]+ ms")
    seen = ""
    while not wanted.search(seen) and not job.ended():
        seen = cluster.run("head", "alice", [BIN_DIR / "muster", "status"]).stdout
    assert wanted.search(seen), seen
    assert job.end().rc == 0


def test_heartbeats_of_a_plain_script(hvdrun, no_leftovers):
    done = hvdrun([*HOSTS, *python_rank(BEATS)])
    assert done.rc == 0 and done.stdout.count("done") == 4, done
    check_end(done.stderr)


def test_nobody_is_named_in_a_job_whose_ranks_are_alike(hvdrun, no_leftovers):
    done = hvdrun([*HOSTS, *python_rank(STEPS.replace("hvd.rank() == 3", "True"))])
    assert done.rc == 0 and done.stdout.count("done") == 4, done
    assert "came last" not in done.stderr, done
