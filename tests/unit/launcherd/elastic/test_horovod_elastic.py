"""Real Horovod 0.28.1 workers (horovod.torch, elastic) against our driver, HTTP server and notices on loopback. This
file plays the agents: it starts and ends the processes. Hosts are names; all of them are this machine."""
import os
import pathlib
import queue
import signal
import subprocess
import textwrap
import threading
import time

import pytest

PYTHON = os.environ.get("MUSTER_HOROVOD", "")
PROGRAM = pathlib.Path(os.environ["MUSTER_TEST_PROGRAMS"]) / "elastic_job"
PATIENCE = 60
GLOO_TIMEOUT = 6  # seconds that a worker waits for a peer's key; horovod's own default is 30
SLOW = 2 * GLOO_TIMEOUT + 2

pytestmark = pytest.mark.skipif(not os.access(PYTHON, os.X_OK), reason="Horovod is not installed: tools/peers horovod")

WORKER = textwrap.dedent("""
    import os, sys, time
    time.sleep(float(os.environ["SLOW"]))
    if os.environ.get("DIE"): sys.exit(1)
    import torch, horovod.torch as hvd
    hvd.init()
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, batch=0)
    @hvd.elastic.run
    def train(state):
        while True:
            done = float(os.path.exists(os.environ["STOP"]))
            total = hvd.allreduce(torch.tensor([1.0, done]), op=hvd.Sum, name="total")
            assert total[0] == hvd.size()
            state.batch += 1
            print("batch", state.batch, "rank", hvd.rank(), "of", hvd.size(), flush=True)
            if total[1] > 0: return
            time.sleep(0.05)
            state.commit()
    train(state)
""")


class Worker:
    """One process of a slot. Its lines are kept; the job is told of its end."""

    def __init__(self, job, slot, numbers, port, **extra):
        names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
        environment = dict(os.environ, HOROVOD_HOSTNAME=slot.split(":")[0], HOROVOD_GLOO_RENDEZVOUS_ADDR="127.0.0.1",
                           HOROVOD_GLOO_RENDEZVOUS_PORT=str(port), HOROVOD_CONTROLLER="gloo", HOROVOD_ELASTIC="1",
                           HOROVOD_CPU_OPERATIONS="gloo", HOROVOD_GLOO_IFACE="lo", OMP_NUM_THREADS="1", SLOW="0",
                           HOROVOD_GLOO_TIMEOUT_SECONDS=str(GLOO_TIMEOUT), STOP=str(job.stop))
        environment.update({"HOROVOD_" + name: value for name, value in zip(names, numbers.split(","))}, **extra)
        self.lines = []
        self.child = subprocess.Popen([PYTHON, "-c", WORKER], env=environment, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self._thread = threading.Thread(target=self._follow, args=(job, slot))
        self._thread.start()

    def _follow(self, job, slot):
        for line in self.child.stdout:
            self.lines.append(line.rstrip())
        status = self.child.wait()
        job.send(f"exit {slot} {128 - status if status < 0 else status}")

    def batches(self):
        """[(batch, rank, size)] so far."""
        words = [line.split() for line in list(self.lines)]
        return [(int(word[1]), int(word[3]), int(word[5])) for word in words if len(word) == 6 and word[0] == "batch"]

    def end(self):
        if self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGKILL)
        self._thread.join()
        self.child.stdout.close()


class Job:
    def __init__(self, folder, np=1, min_np=1, hold="hold", extra=None):
        self.stop = folder / "stop"
        self.workers = {}  # slot: the newest process
        self.all_workers = []
        self.events = []
        self._news = queue.Queue()
        self._extra = extra or {}  # (slot, generation): variables
        self._child = subprocess.Popen([PROGRAM, str(np), str(min_np), hold], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        self._port = int(self._child.stdout.readline().split()[1])
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def send(self, line):
        with self._lock:
            try:
                self._child.stdin.write(line + "\n")
                self._child.stdin.flush()
            except (BrokenPipeError, ValueError):
                pass  # the job is over

    def _follow(self):
        for line in self._child.stdout:
            words = line.split()
            if words[0] == "start":
                _, generation, slot, numbers = words
                extra = self._extra.get((slot, int(generation)), {})
                self.workers[slot] = Worker(self, slot, numbers, self._port, **extra)
                self.all_workers.append(self.workers[slot])
            elif words[0] == "stop":
                os.killpg(self.workers[words[1]].child.pid, signal.SIGKILL)
            self.events.append(line.rstrip())

    def until(self, holds, what):
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, f"{what} did not happen: {self.report()}"
            time.sleep(0.02)

    def until_size(self, slot, size, more=3):
        """Until the slot's worker made `more` batches in a world of this size."""
        self.until(lambda: slot in self.workers and
                   sum(batch[2] == size for batch in self.workers[slot].batches()) >= more, f"{slot} of {size}")

    def until_event(self, event):
        self.until(lambda: event in self.events, event)

    def report(self):
        return "\n".join([*self.events, *("| " + line for one in self.all_workers for line in one.lines[-12:])])

    def end(self):
        for worker in list(self.all_workers):
            worker.end()
        with self._lock:
            self._child.stdin.close()
        self._thread.join()
        self._child.stdout.close()
        assert self._child.wait(timeout=30) == 0


@pytest.fixture
def start(tmp_path):
    jobs = []

    def one(**options):
        jobs.append(Job(tmp_path, **options))
        return jobs[-1]

    yield one
    for job in jobs:
        job.end()


def finish(job):
    job.stop.touch()
    job.until_event("finish succeeded")


def expect_steady(worker):
    """A survivor makes each batch once more at most: that which the failure cut off."""
    numbers = [batch[0] for batch in worker.batches()]
    assert all(after - before in (0, 1) for before, after in zip(numbers, numbers[1:])), numbers


def test_killed_host_leaves(start):
    job = start(np=2)
    job.send("hosts n1:1 n2:1")
    job.until_size("n1:0", 2)
    survivor = job.workers["n1:0"]
    job.workers["n2:0"].child.kill()
    job.until_size("n1:0", 1)
    assert job.workers["n1:0"] is survivor
    expect_steady(survivor)
    finish(job)


def test_one_rank_of_a_host_is_killed(start):
    """Its host is black-listed, and the host's other worker is stopped although it asked for numbers."""
    job = start(np=4)
    job.send("hosts n1:2 n2:2")
    job.until_size("n1:1", 4)
    job.workers["n2:1"].child.kill()
    job.until_size("n1:1", 2)
    assert "stop n2:0" in job.events
    assert len(job.all_workers) == 4
    expect_steady(job.workers["n1:0"])
    finish(job)


def test_frozen_host_leaves_when_its_lease_ends(start):
    """The worker holds its connections open and sends nothing, so its peer waits until Gloo's time limit."""
    job = start(np=2)
    job.send("hosts n1:1 n2:1")
    job.until_size("n1:0", 2)
    survivor = job.workers["n1:0"]
    os.killpg(job.workers["n2:0"].child.pid, signal.SIGSTOP)
    job.send("lost n2")
    job.until_size("n1:0", 1)
    assert job.workers["n1:0"] is survivor
    expect_steady(survivor)
    finish(job)


def test_rank_0_is_killed(start):
    job = start(np=2)
    job.send("hosts n1:1 n2:1")
    job.until_size("n2:0", 2)
    survivor = job.workers["n2:0"]
    job.workers["n1:0"].child.kill()
    job.until_size("n2:0", 1)
    assert survivor.batches()[-1][1] == 0
    expect_steady(survivor)
    finish(job)


def test_growth_with_slow_import(start):
    job = start(extra={("n2:0", 1): {"SLOW": str(SLOW)}})
    job.send("hosts n1:1")
    job.until_size("n1:0", 1)
    survivor = job.workers["n1:0"]
    job.send("hosts n1:1 n2:1")
    job.until_event("notice OK")
    job.until_size("n2:0", 2)
    assert job.workers["n1:0"] is survivor
    assert job.workers["n2:0"].batches()[0][0] > 3, "it got the survivor's state"
    expect_steady(survivor)
    finish(job)


def test_new_worker_dies_before_the_mesh(start):
    job = start(extra={("n2:0", 1): {"DIE": "1"}})
    job.send("hosts n1:1")
    job.until_size("n1:0", 1)
    survivor = job.workers["n1:0"]
    job.send("hosts n1:1 n2:1")
    job.until_event("release 2")
    before = len(survivor.batches())
    job.until(lambda: len(survivor.batches()) > before + 3, "more batches")
    assert job.workers["n1:0"] is survivor
    assert {batch[2] for batch in survivor.batches()} == {1}
    expect_steady(survivor)
    finish(job)


def test_held_put_keeps_early_workers_waiting(start):
    job = start(np=2, extra={("n2:0", 0): {"SLOW": str(SLOW)}})
    job.send("hosts n1:1 n2:1")
    job.until_size("n1:0", 2)
    finish(job)


def test_without_the_hold_early_workers_give_up(start):
    """The same start as above, with answers as horovodrun gives them: it shows that the hold is needed."""
    job = start(np=2, hold="no-hold", extra={("n2:0", 0): {"SLOW": str(SLOW)}})
    job.send("hosts n1:1 n2:1")
    job.until(lambda: "n1:0" in job.workers, "a start")
    early = job.workers["n1:0"]
    job.until(lambda: early.child.poll() is not None, "the early worker's end")
    assert early.child.returncode == -signal.SIGABRT, "Horovod throws in a thread of its own"
    assert any("Wait timeout after" in line for line in early.lines), early.lines


def test_removed_worker_aborts(start):
    """Horovod throws in a thread of its own, so the worker dies of SIGABRT. That is no failure of the job."""
    job = start(np=2)
    job.send("hosts n1:1 n2:1")
    job.until_size("n1:0", 2)
    leaver = job.workers["n2:0"]
    job.send("hosts n1:1")
    job.until_size("n1:0", 1)
    job.until(lambda: leaver.child.poll() is not None, "its end")
    assert leaver.child.returncode == -signal.SIGABRT
    assert any("has been removed from elastic job" in line for line in leaver.lines), leaver.lines
    finish(job)


def test_removal_and_addition_together(start):
    """horovod#3494: survivors would skip sync() while new workers wait in it."""
    job = start(np=2)
    job.send("hosts n1:1 n2:1")
    job.until_size("n1:0", 2)
    job.send("hosts n1:1 n3:1")
    job.until_size("n3:0", 2)
    expect_steady(job.workers["n1:0"])
    finish(job)
