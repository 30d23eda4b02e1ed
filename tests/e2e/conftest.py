"""Fixtures of the end-to-end tests: test hosts, hvdrun on one of them, and what must be true after every test.

    def test_four_ranks(hvdrun, no_leftovers):
        result = hvdrun(["-np", "4", "-H", "n1:2,n2:2", "hostname"])
        assert result.rc == 0, result
"""

import os
import pathlib
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cluster as cluster_module  # noqa: E402
from compat import (BIN_DIR, pytest_configure, pytest_runtest_makereport,  # noqa: E402,F401
                    pytest_sessionfinish)
from cluster import testing  # noqa: E402

pytest.register_assert_rewrite("mpi_tests")
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# With MUSTER_E2E_FANOUT=2 the same tests run with relays: ctest has them as e2e.NAME.below_relays.
FANOUT = ["--fanout", os.environ["MUSTER_E2E_FANOUT"]] if os.environ.get("MUSTER_E2E_FANOUT") else []


@dataclass
class Result:
    """How one hvdrun ended.  rc as Popen has it: -9 is "killed by SIGKILL", 137 is hvdrun's own exit code."""
    rc: int
    stdout_bytes: bytes
    stderr_bytes: bytes
    elapsed: float

    @property
    def stdout(self):
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self):
        return self.stderr_bytes.decode(errors="replace")

    def __str__(self):
        return f"rc {self.rc} after {self.elapsed:.2f} s\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


class Hvdrun:
    """Calls hvdrun on a host; ends with the test, and so does every hvdrun that it has started."""

    def __init__(self, default_cluster):
        self._default_cluster = default_cluster
        self._started = []
        self._last = None  # Result

    def start(self, args, user="alice", host="head", *, on=None, argv=None, **options):
        """cluster.Command, with pipes for stdout and stderr and an empty stdin unless told otherwise.  argv: another
        program, which calls hvdrun; its PATH begins with the folder of hvdrun."""
        binary = BIN_DIR / "hvdrun"
        if not binary.exists():
            pytest.fail(f"{binary} is not built; set MUSTER_BIN_DIR to the folder of the binaries", pytrace=False)
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        if argv is None:
            argv = [str(binary), *FANOUT, *map(str, args)]
        else:
            options["env"] = {"PATH": f"{BIN_DIR}:/usr/local/bin:/usr/bin:/bin"} | options.get("env", {})
        command = (on or self._default_cluster()).start(host, user, argv, **options)
        self._started.append(command)
        return command

    def __call__(self, args, user="alice", host="head", *, on=None, timeout=60.0, input=None, **options):
        """Runs to the end; a test whose hvdrun needs longer than timeout fails with its output."""
        if input is not None:
            options["stdin"] = subprocess.PIPE
        begin = time.monotonic()
        command = self.start(args, user, host, on=on, **options)
        return self.finish(command, timeout=timeout, input=input, begin=begin)

    def finish(self, command, *, timeout=60.0, input=None, begin=None):
        """Waits for a started hvdrun."""
        begin = time.monotonic() if begin is None else begin
        try:
            out, err = command.communicate(input, timeout)
        except subprocess.TimeoutExpired:
            command.kill()
            out, err = command.communicate()
            result = Result(command.returncode, out or b"", err or b"", time.monotonic() - begin)
            pytest.fail(f"hvdrun did not end within {timeout:g} s; killed\n{result}", pytrace=False)
        self._last = Result(command.returncode, out or b"", err or b"", time.monotonic() - begin)
        return self._last

    def close(self):
        if self._last is not None:
            print("The last hvdrun:", str(self._last)[-4000:])  # pytest shows it below a test that failed
        for command in self._started:
            command.kill()
            command.wait()
            for pipe in (command.stdin, command.stdout, command.stderr):
                if pipe:
                    pipe.close()


@pytest.fixture(scope="session")
def clusters():
    """All clusters of this session; clusters.get(hosts, **shape) makes or finds one."""
    if cluster_module.unavailable() is None:
        cluster_module.sweep()  # of runs that were killed
    made = testing.Clusters(expose=[str(BIN_DIR.parent if BIN_DIR.name == "bin" else BIN_DIR)])
    yield made
    made.down()


@pytest.fixture(autouse=True)
def _restored(clusters):
    """After each test: links healed, dead hosts booted."""
    yield
    clusters.restore()


@pytest.fixture
def cluster(clusters):
    """n1..n4 and head; the same for all tests, so leave it as it was."""
    return clusters.get(4)


@pytest.fixture
def make_cluster(clusters):
    """make_cluster(16), make_cluster(home="shared"), make_cluster(homes={"n2": "noexec"}),
    make_cluster(delegate=True): the same shape is made once."""
    return clusters.get


@pytest.fixture
def hvdrun(request, clusters):
    """hvdrun(args, user="alice", host="head", on=cluster) -> Result; hvdrun.start(...) -> a running Command."""
    runner = Hvdrun(lambda: clusters.get(4))
    yield runner
    runner.close()


@pytest.fixture
def strays(clusters):
    """strays(marker, on=cluster) -> [(host, Process)] that have marker (a job id) as a value in their environment
    or in an argument."""
    return lambda marker, on=None, hosts=None: testing.strays(on or clusters.get(4), marker, hosts)


@pytest.fixture
def bystander(clusters, cluster):
    """bob's job of the same shape, running on all hosts of `cluster`."""
    return clusters.bystander(cluster)


@pytest.fixture
def script(cluster):
    """script(text) writes a program into alice's home on all hosts, and returns its path."""
    def write(text):
        for host in cluster.hosts:
            cluster.path(host, "/home/alice/train.py").write_text(text)
        return "/home/alice/train.py"
    yield write
    for host in cluster.hosts:
        cluster.path(host, "/home/alice/train.py").unlink(missing_ok=True)


# Waits for the file of the first argument, then needs 512 MiB.
EATS = """
import os, sys, time
print("pid", os.getpid(), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
kept = [bytearray(os.urandom(1 << 20)) for _ in range(512)]
"""


@pytest.fixture
def small_memory():
    """A cgroup (version 1) of this machine with 64 MiB, which no test host sees."""
    group = pathlib.Path(f"/sys/fs/cgroup/memory/muster-test-{os.getpid()}")
    if not group.parent.joinpath("memory.limit_in_bytes").exists():
        pytest.skip("this machine has no memory controller of cgroup version 1")
    group.mkdir()
    group.joinpath("memory.limit_in_bytes").write_text(str(64 << 20))
    yield group
    group.rmdir()


@pytest.fixture
def own_names(cluster):
    """Hosts whose own name is a network address, for programs that know no interface but that name."""
    kept = {}
    for host in cluster.nodes:
        hosts = cluster.path(host, "/etc/hosts")
        kept[hosts] = hosts.read_text()
        hosts.write_text("".join(line for line in kept[hosts].splitlines(True) if not line.startswith("127.0.1.1")))
    yield
    for hosts, text in kept.items():
        hosts.write_text(text)


@pytest.fixture
def no_leftovers(clusters, cluster, bystander):
    """After the test: no process of a job, no session folder on any host, and bob's job as it was."""
    taken = {each.name: testing.Leftovers(each) for each in clusters.all()}
    yield
    for each in clusters.all():
        if each.name in taken:
            taken[each.name].check()
    bystander.check()
