"""--tensorboard: what is measured of a job, in a file that TensorBoard reads."""

import base64
import re
import time

from horovod_programs import python_rank
from tensorboard_events import masked_crc32c, read_events, scalars

HOSTS = ["-np", "4", "-H", "n1:2,n2:2"]
LATE = 3  # the rank, on n2

STEPS = """
import time
import numpy as np
import muster.numpy as hvd
hvd.init()
for step in range(160):
    if hvd.rank() == LATE:
        time.sleep(0.05)
    hvd.allreduce(np.ones(8, np.float32), name="grad")
    print("step", step, flush=True)
""".replace("LATE", str(LATE))

# In the first attempt, rank 1 fails at once.
BEATS = """
import os, sys, time
import muster
rank = int(os.environ["MUSTER_RANK"])
if os.environ["MUSTER_GENERATION"] == "0":
    sys.exit(7 if rank == 1 else 0)
for step in range(80):
    time.sleep(0.1 if rank == LATE else 0.05)
    muster.heartbeat(step)
time.sleep(1 if rank == LATE else 5)  # agents look every two seconds
""".replace("LATE", str(LATE))


def events_in(cluster, folder):
    """Those of the only file there."""
    listed = cluster.run("head", "alice", ["ls", folder], check=True).stdout.split()
    assert len(listed) == 1 and re.fullmatch(r"events\.out\.tfevents\.\d+\.[^/]+\.\d+\.muster", listed[0]), listed
    data = cluster.run("head", "alice", ["base64", "-w0", f"{folder}/{listed[0]}"], check=True).stdout
    return read_events(base64.b64decode(data))


def values(events, tag):
    return [value for _, _, value in scalars(events)[tag]]


def texts(events):
    return [event.texts["job/events"] for event in events if event.texts]


def test_the_reader_knows_the_checksum():
    crc = 0xe3069283  # of "123456789", as RFC 3720's algorithm gives it
    assert masked_crc32c(b"123456789") == ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def test_a_rank_that_is_late_to_every_allreduce(hvdrun, cluster, no_leftovers):
    folder, begin = "/home/alice/runs/steps", time.time()
    done = hvdrun(["--tensorboard", folder, *HOSTS, *python_rank(STEPS)])
    assert done.rc == 0, done
    events = events_in(cluster, folder)
    assert events[0].version == "brain.Event:2" and not any(event.version for event in events[1:])
    times = [event.wall_time for event in events]
    assert times == sorted(times) and begin - 5 < times[0] and times[-1] < time.time() + 5
    assert [event.step for event in events] == sorted(event.step for event in events)
    assert any(3 < rate < 25 for rate in values(events, "job/steps_per_second")), events
    assert any(rate > 50 for rate in values(events, "job/output_bytes_per_second")), events
    assert values(events, "job/generation") == [0.0]
    assert values(events, f"straggler_score/rank_{LATE}")[-1] < 0.2, events
    assert values(events, "straggler_score/host_n2")[-1] < 0.2, events
    assert "straggler_score/host_n1" not in scalars(events) or values(events, "straggler_score/host_n1")[-1] > 0.8
    for host in ("n1", "n2"):
        assert all(0 <= value <= 100 for value in values(events, f"hosts_cpu_percent/{host}"))
        assert all(value > 0 for value in values(events, f"hosts_memory_used_mib/{host}"))
    assert texts(events)[-1] == "ended with exit code 0"
    assert any(re.match(r"n2 came last in \d+ % of \d+ steps", text) for text in texts(events)), texts(events)


def test_heartbeats_and_a_second_generation(hvdrun, cluster, no_leftovers):
    folder = "/home/alice/runs/beats"
    done = hvdrun(["--tensorboard", "runs/beats", "--max-restarts", "1", *HOSTS, *python_rank(BEATS)], cwd="/home/alice")
    assert done.rc == 0, done
    events = events_in(cluster, folder)
    assert values(events, "job/generation") == [0.0, 1.0]
    assert any(5 < rate < 25 for rate in values(events, "job/steps_per_second")), events
    assert values(events, f"straggler_score/rank_{LATE}")[-1] < 0.5, events
    assert values(events, "hosts_cpu_percent/n2"), "agents that serve several generations report, too"
    assert any("attempt 1" in text and "exit code 7" in text for text in texts(events)), texts(events)


def test_a_folder_that_cannot_be_made_starts_nothing(hvdrun, cluster, no_leftovers):
    done = hvdrun(["--tensorboard", "/proc/none/runs", *HOSTS, "echo", "started"])
    assert done.rc == 2 and "started" not in done.stdout, done
    assert "hvdrun: --tensorboard: make directory /proc/none: " in done.stderr, done
