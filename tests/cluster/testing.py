"""What pytest needs of the test hosts: skip or fail without them, leftovers, and a bystander's job."""

import itertools
import os
import pathlib
import re
import select
import time

import pytest

from . import ClusterError, hosts

BYSTANDER_JOB = "bobsjob2"


def require_cluster():
    """Skips the test with the reason where test hosts cannot be made; fails it with MUSTER_REQUIRE_CLUSTER=1."""
    problem = hosts.unavailable()
    if problem and os.environ.get("MUSTER_REQUIRE_CLUSTER") == "1":
        pytest.fail(problem + " (MUSTER_REQUIRE_CLUSTER=1)", pytrace=False)
    if problem:
        pytest.skip(problem)


def eventually(condition, timeout):
    """The first true value of condition(), else its last; asked again every 10 ms until the deadline."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value or time.monotonic() >= deadline:
            return value
        select.select([], [], [], 0.01)


def strays(cluster, marker, hosts=None):
    """[(host, Process)] with marker as the value of an environment variable, or in an argument."""
    return [(host, process) for host, found in cluster.all_processes(hosts).items() for process in found
            if marker in process.environ.values() or any(marker in word for word in process.argv)]


def _is_sshd_listener(process):
    return process.comm == "sshd" and any("[listener]" in word for word in process.argv)


def _is_bobs(cluster, process):
    """His own, and those of root that serve his ssh sessions."""
    return process.uid == cluster.uid("bob") or (process.comm == "sshd" and process.argv[0].startswith("sshd: bob"))


def _foreign(cluster):
    """[(host, Process)] that a job of somebody else than bob may have left: those that are not the host's own."""
    return [(host, process) for host, found in cluster.all_processes().items() for process in found
            if not _is_bobs(cluster, process) and not _is_sshd_listener(process)]


def _session_folders(cluster, host):
    """But for the socket of an hvdrun, which outlives a SIGKILL of it until the next `muster jobs`; one that lives is
    found as a process."""
    found = []
    for folder in cluster.path(host, "/tmp").glob("muster-*"):
        if folder.stat().st_uid != cluster.uid("bob"):
            found += [f"/tmp/{folder.name}/{entry.name}" for entry in folder.iterdir() if not entry.is_socket()]
    return found


def _describe(process):
    return f"pid {process.inner_pid} uid {process.uid} {process.state} {' '.join(process.argv) or process.comm}"


def _read(path):
    try:
        return path.read_text().strip()
    except OSError as error:
        return f"({error.strerror})"


def _target(link):
    try:
        return os.readlink(link)
    except OSError as error:
        return f"({error.strerror})"


def _entries(folder):
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []  # it has ended, or is closed to us


def inside(process):
    """What a process that is still there does, for the message of a test that finds it: whose session it holds (the
    folder is named after the job), its state, and where in the kernel its threads are."""
    proc = pathlib.Path(f"/proc/{process.pid}")
    lines = [f"{_describe(process)}, of {process.ppid}, started {process.start}"]
    targets = {_target(entry) for entry in _entries(proc / "fd")}
    lines += [f"holds {target}" for target in sorted(targets) if target.endswith("/alive")]
    for task in _entries(proc / "task"):
        state = re.search(r"^State:\s*(\S)", _read(task / "status"), re.M)
        stack = " < ".join(re.findall(r"\] ([^+\s]+)", _read(task / "stack")))
        lines.append(f"thread {task.name} {_read(task / 'comm')}: {state[1] if state else 'gone'}, waits in "
                     f"{_read(task / 'wchan')}: {stack}")
    return "\n    ".join(lines)


class Bystander:
    """bob's job of the same shape on every host: a process with job variables in its environment, in a session of
    its own, and a session folder.  check() raises AssertionError when anything of it was touched."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._commands = {host: self._start(host) for host in cluster.hosts}

    def _start(self, host):
        cluster, folder = self._cluster, f"/tmp/muster-{self._cluster.uid('bob')}/{BYSTANDER_JOB}-{host}"
        cluster.run(host, "bob", ["sh", "-c", f"umask 077; mkdir -p {folder} && echo kept > {folder}/alive"], check=True)
        env = {"MUSTER_JOB_ID": BYSTANDER_JOB, "MUSTER_RANK": "0", "MUSTER_SESSION_DIR": folder}
        return cluster.start(host, "bob", ["sleep", "infinity"], env=env)

    def check(self):
        for host in self._cluster.hosts:
            command = self._commands[host]
            if not self._cluster.running(host):
                continue
            assert not command.ended(), f"bob's process on {host} ended with {command.wait()}"
            folder = f"/tmp/muster-{self._cluster.uid('bob')}/{BYSTANDER_JOB}-{host}"
            kept = self._cluster.path(host, f"{folder}/alive").read_text() == "kept\n"
            assert kept, f"bob's {folder} on {host} changed"

    def restore(self):
        """Starts what ended with a host that a test killed."""
        for host, command in self._commands.items():
            if command.ended():
                command.wait()
                self._commands[host] = self._start(host)

    def stop(self):
        for command in self._commands.values():
            command.kill()
            command.wait()


class Leftovers:
    """Taken before a test; check() afterwards raises AssertionError with what the test's jobs left behind."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._before = {process.key for _, process in _foreign(cluster)}
        self._folders = {(host, path) for host in self._running() for path in _session_folders(cluster, host)}

    def _running(self):
        return [host for host in self._cluster.hosts if self._cluster.running(host)]

    def processes(self):
        return [(host, process) for host, process in _foreign(self._cluster) if process.key not in self._before]

    def folders(self):
        return [(host, path) for host in self._running() for path in _session_folders(self._cluster, host)
                if (host, path) not in self._folders]

    def check(self, timeout=3.0):
        """Waits for the end of what is ending (ssh sessions); what stays is reported, and killed for the next test."""
        eventually(lambda: not self.processes() and not self.folders(), timeout)
        processes, folders = self.processes(), self.folders()
        for _, process in processes:
            try:
                os.kill(process.pid, 9)
            except ProcessLookupError:
                pass
        left = [f"{host}: {_describe(process)}" for host, process in processes]
        left += [f"{host}: {path}" for host, path in folders]
        assert not left, "left behind:\n" + "\n".join(left)


class Clusters:
    """The clusters of a test session by shape, each made when first asked for; each with a bystander."""

    _numbers = itertools.count()  # names are one per process, whatever conftest asks

    def __init__(self, expose=()):
        self._expose = list(expose)
        self._made = {}
        self._bystanders = {}

    def get(self, hosts=4, **shape):
        key = (hosts, repr(sorted(shape.items())))
        if key not in self._made:
            require_cluster()
            name = f"pytest-{os.getpid()}-{next(self._numbers)}"
            self._made[key] = cluster_up(name, hosts, expose=self._expose, **shape)
        return self._made[key]

    def all(self):
        return list(self._made.values())

    def bystander(self, cluster):
        if cluster.name not in self._bystanders:
            self._bystanders[cluster.name] = Bystander(cluster)
        return self._bystanders[cluster.name]

    def restore(self):
        """After a test: links healed, dead hosts booted, bob's processes there again."""
        for cluster in self.all():
            cluster.restore()
        for bystander in self._bystanders.values():
            bystander.restore()

    def down(self):
        for bystander in self._bystanders.values():
            bystander.stop()
        for cluster in self.all():
            cluster.down()


def cluster_up(name, count, **options):
    try:
        return hosts.Cluster.up(name, count, **options)
    except ClusterError as problem:
        pytest.fail(str(problem), pytrace=False)
