"""Output at full size: every byte arrives, no line is broken, little memory is used, and a reader that stops reading
stops nothing else."""

import os
import re
import signal
import subprocess
import time

import pytest
from cluster import testing
from conftest import BIN_DIR
from console import Console

PROGRAMS = BIN_DIR.parent / "tests/programs"
FLOOD, CHECK = str(PROGRAMS / "output_flood"), str(PROGRAMS / "output_check")
SHAPE = ["--start-timeout", "120", "-np", "16", "-H", "n1:4,n2:4,n3:4,n4:4"]
RANKS, LINES = 16, 100_000
SLOW_RATE, SLOW_SECONDS = 5_000_000, 10
MEMORY = 64 * 1024  # KiB
BLOCKED = 20.0  # longer than the lease of 15 s
PATIENCE = 150.0  # a start takes most of it where many share the machine


@pytest.fixture(autouse=True)
def programs():
    if not os.path.exists(FLOOD) or not os.path.exists(CHECK):
        pytest.fail(f"build the targets output_flood and output_check: {PROGRAMS}", pytrace=False)


class Memory:
    """The most memory that hvdrun and each agent and warden have used, as long as look() was called while they lived."""

    def __init__(self, cluster, command):
        self._cluster, self._launcher, self._found = cluster, command.real_pid, {}
        self.most = {}

    def _refresh(self):
        for host, found in self._cluster.all_processes().items():
            for process in found:
                if process.uid == self._cluster.uid("alice") and is_ours(process):
                    self._found[process.pid] = f"{'warden' if process.comm == 'muster-warden' else 'agent'} on {host}"
        self._found[self._launcher] = "hvdrun"

    def look(self):
        if len(self.most) < 9:  # hvdrun, four agents, four wardens
            self._refresh()
        for pid, name in self._found.items():
            try:
                with open(f"/proc/{pid}/status") as file:
                    match = re.search(r"VmHWM:\s+(\d+) kB", file.read())
            except (FileNotFoundError, ProcessLookupError):
                continue
            if match:
                self.most[name] = max(self.most.get(name, 0), int(match[1]))

    def check(self):
        print("VmHWM in KiB:", self.most)
        assert len(self.most) == 9, self.most
        assert max(self.most.values()) < MEMORY, self.most


def is_ours(process):
    return process.comm == "muster-warden" or "--stdio" in process.argv


def until_end(command, memory, timeout):
    deadline = time.monotonic() + timeout
    while True:
        try:
            return command.wait(0.1)
        except subprocess.TimeoutExpired:
            memory.look()
            assert time.monotonic() < deadline, f"hvdrun runs after {timeout} s; {memory.most}"


def test_every_byte_of_a_flood(hvdrun, cluster, no_leftovers, tmp_path):
    with open(tmp_path / "stderr", "wb") as errors:
        command = hvdrun.start([*SHAPE, FLOOD, LINES], on=cluster, stderr=errors)
    check = subprocess.Popen([CHECK, str(RANKS), str(LINES), str(SLOW_RATE * SLOW_SECONDS), str(SLOW_RATE)],
                             stdin=command.stdout, stdout=subprocess.PIPE, text=True)
    command.stdout.close()
    memory = Memory(cluster, command)
    try:
        began = time.monotonic()
        rc = until_end(command, memory, 300)
        said, _ = check.communicate(timeout=60)
    finally:
        check.kill()
        check.wait()
    print(f"{time.monotonic() - began:.1f} s\n{said}")
    assert check.returncode == 0, said
    assert len(re.findall(r"^rank \d+: \d+ bytes, [0-9a-f]{16}$", said, re.M)) == RANKS, said
    assert rc == 0, (tmp_path / "stderr").read_text(errors="replace")
    memory.check()


def test_every_byte_in_files(hvdrun, cluster, no_leftovers):
    lines = LINES // 10
    command = hvdrun.start([*SHAPE, "--output-filename", "/tmp/flood", FLOOD, lines], on=cluster,
                           stdout=subprocess.DEVNULL)
    memory = Memory(cluster, command)
    rc = until_end(command, memory, 300)
    assert rc == 0, command.stderr.read()
    check = subprocess.run([CHECK, "--files", str(cluster.path("head", "/tmp/flood")), str(RANKS), str(lines)],
                           capture_output=True, text=True)
    cluster.run("head", "alice", ["rm", "-r", "/tmp/flood"], check=True)
    assert check.returncode == 0, check.stdout


class Blocked:
    """A job whose stdout nobody reads, as soon as each rank is stuck in its write."""

    def __init__(self, hvdrun, cluster):
        self.cluster = cluster
        self.reader, writer = os.pipe()
        err, err_end = os.pipe()
        try:
            self.command = hvdrun.start([*SHAPE, FLOOD, 10 * LINES], on=cluster, stdout=writer, stderr=err_end)
        finally:
            os.close(writer)
            os.close(err_end)
        self.err = Console(err)
        self._wait_until_stuck()

    def ranks(self):
        """{rank: Process}"""
        return {int(process.environ["MUSTER_RANK"]): process for found in self.cluster.all_processes().values()
                for process in found if process.comm == "output_flood" and "MUSTER_RANK" in process.environ}

    def _wait_until_stuck(self):
        assert testing.eventually(lambda: len(self.ranks()) == RANKS, PATIENCE), self.err.text
        ranks, before, since = self.ranks(), None, time.monotonic()

        def are_stuck():
            nonlocal before, since
            now = {rank: open(f"/proc/{process.pid}/io").read() for rank, process in ranks.items()}
            if now != before:
                before, since = now, time.monotonic()
            return time.monotonic() - since > 2.0

        assert testing.eventually(are_stuck, PATIENCE), "the ranks write on, and nobody reads"

    def drain(self):
        """Somebody reads again, and throws it away."""
        return subprocess.Popen(["cat"], stdin=self.reader, stdout=subprocess.DEVNULL)

    def close(self):
        self.err.close()
        os.close(self.reader)


@pytest.fixture
def blocked(hvdrun, cluster, no_leftovers):
    job = Blocked(hvdrun, cluster)
    yield job
    job.close()


def test_killed_rank_is_reported_while_nobody_reads(blocked):
    memory = Memory(blocked.cluster, blocked.command)
    testing.eventually(lambda: memory.look() or blocked.command.ended(), BLOCKED)
    assert not blocked.command.ended() and blocked.err.text == "", blocked.err.text
    assert len(blocked.ranks()) == RANKS
    memory.check()

    victim = blocked.ranks()[6]
    began = time.monotonic()
    os.kill(victim.pid, signal.SIGKILL)
    blocked.err.wait_for(r"rank 6\b")
    seconds = time.monotonic() - began
    print(f"reported after {seconds:.2f} s: {blocked.err.text.splitlines()[0]}")
    allowed = 1.0 * max(1.0, min(3.0, os.getloadavg()[0] / len(os.sched_getaffinity(0))))
    assert seconds < allowed, f"{seconds:.2f} s of {allowed:.2f}: {blocked.err.text}"
    said = blocked.err.text
    assert "n2" in said and f"pid {victim.inner_pid}" in said and "signal 9" in said, said

    reader = blocked.drain()
    assert blocked.command.wait(PATIENCE) == 128 + signal.SIGKILL, blocked.err.text
    reader.wait()


def test_ctrl_c_while_nobody_reads(blocked):
    began = time.monotonic()
    blocked.command.send_signal(signal.SIGINT)
    rc = blocked.command.wait(PATIENCE)
    print(f"ended {time.monotonic() - began:.2f} s after Ctrl-C")
    assert rc == 130, blocked.err.text
    assert not blocked.ranks()
    assert time.monotonic() - began < 5.0 + 2.0 * max(1.0, os.getloadavg()[0] / 2), "not within the grace and 2 s"
