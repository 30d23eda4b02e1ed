"""A rank of an elastic job by Horovod's API: it adds numbers with all ranks, step by step, until the file "stop" is in the
home of some rank's host.

    elastic_trainee.py [--late HOST:SECONDS] [--dies HOST] [--handover SECONDS] [--step SECONDS]

    --late       processes on HOST that start after the job wait so long before they import Horovod
    --dies       processes on HOST that start after the job end with 7 before they call hvd.init()
    --handover   a rank that is told of other hosts needs so long before it leaves its world
The job has started when "started" is in the home of a host. A rank prints "up RANK of SIZE at STEP on HOST pid PID" when
its world works, and "done RANK of SIZE at STEP on HOST" at the end."""

import argparse
import os
import pathlib
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--late", default="-:0")
parser.add_argument("--dies", default="-")
parser.add_argument("--handover", type=float, default=0)
parser.add_argument("--step", type=float, default=0.05)
options = parser.parse_args()
HOST, HOME = os.environ["HOROVOD_HOSTNAME"], pathlib.Path.home()
late_host, late_by = options.late.split(":")
if (HOME / "started").exists():
    if HOST == options.dies:
        sys.exit(7)
    if HOST == late_host:
        print("late", flush=True)
        time.sleep(float(late_by))

import horovod.torch as hvd  # noqa: E402
import torch  # noqa: E402
from horovod.common.exceptions import HostsUpdatedInterrupt  # noqa: E402


@hvd.elastic.run
def train(state):
    hosts = hvd.allgather_object(HOST)
    assert hosts[hvd.rank()] == HOST
    print(f"up {hvd.rank()} of {hvd.size()} at {state.step} on {HOST} pid {os.getpid()}", flush=True)
    is_stopped = False
    while not is_stopped:
        mine = torch.tensor([1.0, float((HOME / "stop").exists()), float(state.step)], dtype=torch.float64)
        total = hvd.allreduce(mine, op=hvd.Sum, name="step")
        assert total[0] == hvd.size() and total[2] == hvd.size() * state.step, f"{total} of {hvd.size()} at {state.step}"
        is_stopped = bool(total[1])
        state.step += 1
        time.sleep(options.step)
        try:
            state.commit()
        except HostsUpdatedInterrupt:
            time.sleep(options.handover)
            raise
    print(f"done {hvd.rank()} of {hvd.size()} at {state.step} on {HOST}", flush=True)


torch.set_num_threads(1)
hvd.init()
train(hvd.elastic.TorchState(step=0))
