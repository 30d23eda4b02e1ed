"""Backend "muster" of torch.distributed when a rank does not come: killed, or late."""

import re
import sys

PREAMBLE = """
import datetime, os, signal, time
import torch
import torch.distributed as dist
import muster.torch.distributed
"""

KILLED = PREAMBLE + """
dist.init_process_group("muster")
layers = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(6)])
model = torch.nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=0.01)
step = 0


def die(*_):
    if dist.get_rank() == 1 and step == 3:
        os.kill(os.getpid(), signal.SIGKILL)


layers[2].register_full_backward_hook(die)
try:
    for step in range(6):
        model(torch.ones(2, 64)).sum().backward()
except RuntimeError as problem:
    print("told:", str(problem).splitlines()[0], flush=True)
"""

LATE = PREAMBLE + """
dist.init_process_group("muster", timeout=datetime.timedelta(seconds=2))
store = dist.distributed_c10d._get_default_store()
if dist.get_rank() == 0:
    begin = time.monotonic()
    try:
        dist.all_reduce(torch.ones(1))
    except RuntimeError as problem:
        print(f"told after {time.monotonic() - begin:.1f} s: {problem}", flush=True)
    store.set("told", "yes")
else:
    store.wait(["told"], datetime.timedelta(seconds=100))
"""


def test_a_rank_that_is_killed_in_backward_is_named(hvdrun, tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    done = hvdrun(["-np", "3", "--oversubscribe", "--keep-going", "--horovod", "muster", sys.executable, script])
    told = re.findall(r"\[(\d)\]<stdout>:told: (.*)", done.stdout)
    assert sorted(rank for rank, _ in told) == ["0", "2"], done.stdout + done.stderr
    for _, message in told:
        assert "rank 1" in message and "killed by signal 9" in message


def test_the_time_out_of_the_group_holds(hvdrun, tmp_path):
    script = tmp_path / "late.py"
    script.write_text(LATE)
    done = hvdrun(["-np", "2", "--oversubscribe", "--keep-going", "--horovod", "muster", sys.executable, script])
    told = re.search(r"told after ([0-9.]+) s: (.*)", done.stdout)
    assert told, done.stdout + done.stderr
    assert 1.9 < float(told.group(1)) < 25
