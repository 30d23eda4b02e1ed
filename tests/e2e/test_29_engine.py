"""The engine under Horovod's API between hosts: what its settings do, late ranks, and much at once."""

import json
import signal

import pytest
from console import Watched
from horovod_programs import python_rank

HOSTS = ["-np", "4", "-H", "n1:2,n2:2"]
STEPS = """
import numpy as np
import muster.numpy as hvd

hvd.init()
for step in range(5):
    handles = [hvd.allreduce_async(np.full(100 * i + 1, hvd.rank(), np.float32), name=f"layer{i}", op=hvd.Sum)
               for i in range(20)]
    for i, handle in enumerate(handles):
        total = hvd.synchronize(handle)
        assert total.shape == (100 * i + 1,) and (total == sum(range(hvd.size()))).all(), (step, i)
print("done", hvd.rank())
"""


@pytest.fixture
def start(hvdrun, cluster, no_leftovers):
    def call(command, *options, hosts=HOSTS):
        return Watched(hvdrun, cluster, [*hosts, *options, *command])
    return call


def done_by(result):
    return sorted(line.split(":", 1)[1] for line in result.stdout.splitlines() if ":done" in line)


@pytest.mark.parametrize("options", [
    [], ["--fusion-threshold-mb", "0"], ["--cache-capacity", "0"], ["--cycle-time-ms", "3"],
    ["--hierarchical-allreduce"], ["--thread-affinity", "0"]], ids=lambda options: options[0] if options else "none")
def test_results_do_not_depend_on_settings(hvdrun, no_leftovers, options):
    done = hvdrun([*HOSTS, *options, *python_rank(STEPS)])
    assert done.rc == 0, done
    assert done_by(done) == [f"done {rank}" for rank in range(4)]


def test_autotune_writes_what_it_has_tried(hvdrun, cluster, no_leftovers):
    log = "/tmp/muster-autotune.csv"
    steps = STEPS.replace("range(5)", "range(60)")
    done = hvdrun([*HOSTS, "--autotune", "--autotune-log-file", log, "--autotune-warmup-samples", "1",
                   "--autotune-steps-per-sample", "2", "--autotune-bayes-opt-max-samples", "8",
                   *python_rank(steps)])
    assert done.rc == 0, done
    rows = cluster.run("n1", "alice", ["sh", "-c", f"cat {log}; rm {log}"], check=True).stdout.splitlines()
    assert rows[0] == "fusion_bytes,cycle_ms,bytes_per_us"
    assert len(rows) == 1 + 8 and all(float(row.split(",")[2]) > 0 for row in rows[1:])


def test_the_timeline_is_a_trace_of_every_tensor(hvdrun, cluster, no_leftovers):
    file = "/tmp/muster-timeline.json"
    done = hvdrun([*HOSTS, "--timeline-filename", file, "--timeline-mark-cycles", *python_rank(STEPS)])
    assert done.rc == 0, done
    events = json.loads(cluster.run("n1", "alice", ["sh", "-c", f"cat {file}; rm {file}"], check=True).stdout)
    tensors = {event["pid"]: event["args"]["name"] for event in events if event.get("name") == "process_name"}
    for name in [f"allreduce.layer{i}" for i in range(20)]:
        (pid,) = [pid for pid, tensor in tensors.items() if tensor == name]
        own = [event for event in events if event["pid"] == pid]
        phases = [event["name"] for event in own if event["ph"] == "B"]
        assert phases.count("NEGOTIATE_ALLREDUCE") == phases.count("ALLREDUCE") == 5
        assert sorted(event["name"] for event in own if event["ph"] == "X") == sorted("0123" * 5)
    assert any(event["ph"] == "i" and event["name"] == "CYCLE_START" for event in events)


LATE = """
import sys
import numpy as np
import muster.numpy as hvd

hvd.init()
hvd.allreduce(np.ones(3), name="ready")
if hvd.rank() == 3:
    print("waiting", flush=True)
    sys.stdin.readline()
print("total", hvd.allreduce(np.ones(3), name="gradient", op=hvd.Sum)[0], flush=True)
"""


def test_hvdrun_says_which_rank_is_late_in_which_tensor(start):
    job = start(python_rank(LATE.replace("sys.stdin.readline()", "import os; os.kill(os.getpid(), 19)")),
                "--stall-check-warning-time-seconds", "1")
    # A rank that is stopped as a whole.
    job.err.wait_for(r"\[0\]<stderr>:muster: rank 3 \(n2\) no longer takes part in collectives")
    job.signal(signal.SIGINT)
    job.end()


def test_a_rank_that_computes_for_long_is_named_and_the_job_goes_on(start, cluster):
    program = LATE.replace("sys.stdin.readline()", """
    import os, time
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.05)""")
    go = "/tmp/muster-test-go"
    job = start(python_rank(program, go), "--stall-check-warning-time-seconds", "1")
    job.err.wait_for(r"\[0\]<stderr>:muster: tensors wait for ranks that have not submitted them: "
                     r"'allreduce.gradient' for \d+ s, not submitted by rank 3 \(n2\)")
    cluster.run("n2", "alice", ["touch", go], check=True)
    assert job.end().rc == 0
    assert len(job.out.wait_for(r"total 4\.0", count=4)) == 4
    cluster.run("n2", "alice", ["rm", go], check=True)


def test_after_the_shutdown_time_every_rank_hears_of_it(start):
    program = LATE.replace("sys.stdin.readline()", "hvd.allreduce(np.ones(3), name='another')")
    job = start(python_rank(program), "--stall-check-warning-time-seconds", "1",
                "--stall-check-shutdown-time-seconds", "2", "--keep-going")
    for rank in range(4):
        job.err.wait_for(rf"\[{rank}\]<stderr>:.*HorovodInternalError: .*HOROVOD_STALL_SHUTDOWN_TIME_SECONDS")
    assert job.end().rc == 1


MANY = """
import random
import resource
import numpy as np
import muster.numpy as hvd

hvd.init()
names = [f"tensor{i}" for i in range(10_000)]
data = [np.full(4, i, np.float32) for i in range(len(names))]
order = list(range(len(names)))
random.Random(hvd.rank()).shuffle(order)
peaks = []
for turn in range(10):
    handles = [(i, hvd.allreduce_async(data[i], name=names[i], op=hvd.Sum)) for i in order]
    for i, handle in handles:
        assert (hvd.synchronize(handle) == i * hvd.size()).all(), names[i]
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print("peaks", *peaks, flush=True)
"""


def test_memory_stays_flat_over_a_hundred_thousand_operations_in_any_order(hvdrun, no_leftovers):
    done = hvdrun(["-np", "2", "-H", "n1:1,n2:1", *python_rank(MANY)])
    assert done.rc == 0, done
    lines = [line.split("peaks ")[1] for line in done.stdout.splitlines() if "peaks " in line]
    assert len(lines) == 2
    for line in lines:
        peaks = [int(kib) for kib in line.split()]
        # KiB. At most 10,000 operations are under way, and how many wait for the other rank differs from turn to turn. So the
        # peak may grow at first; over the last 40,000 operations it must not.
        assert peaks[-1] - peaks[5] < 4 * 1024 and peaks[-1] - peaks[2] < 16 * 1024, peaks
