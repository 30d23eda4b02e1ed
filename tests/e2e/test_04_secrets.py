"""Secrets stay where they belong: no value of the environment, key or token of a job in what any user can see with ps,
in a file, in a log, at any moment; and another user on the same host gets nothing."""

import os
import re
import stat
import threading
import uuid

import pytest
from cluster import testing
from console import Watched

SHAPE = ["--start-timeout", "120", "-np", "8", "-H", "n1:2,n2:2,n3:2,n4:2"]
GO = "/tmp/secrets-go"
RANK = ["sh", "-c", f"echo ready; while [ ! -e {GO} ]; do sleep 0.1; done"]
FOLDERS = ("tmp", "home", "root", "run", "var/log", "var/tmp", "dev/shm")
LARGEST = 1 << 20  # the agent program is larger, and has its checksum for a name
TOKEN = re.compile(rb"(?<![0-9a-zA-Z])[0-9a-f]{64}(?![0-9a-zA-Z])")


def is_agent(process):
    return "--stdio" in process.argv and process.comm != "muster-warden" and process.comm not in ("sh", "bash", "sshd")


class Watch:
    """Looks at all processes and files of all hosts, again and again; keeps what is different from what it has seen."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._seen = {}  # (pid of whose environment it is, text): where it was first seen
        self._files = {}
        self.rank_values = set()
        self.rounds = 0
        self._stop = threading.Event()
        self._problem = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while not self._stop.is_set():
                self._processes()
                self._all_files()
                self.rounds += 1
        except BaseException as problem:  # re-raised by stop()
            self._problem = problem

    def _processes(self):
        for host, found in self._cluster.all_processes().items():
            for process in found:
                self._keep(f"argv of {process.comm} on {host}", " ".join(process.argv).encode())
                if process.comm == "hvdrun" or "MUSTER_RANK" in process.environ:
                    self.rank_values |= set(process.environ.values()) if process.comm != "hvdrun" else set()
                    continue
                text = "\n".join(f"{name}={value}" for name, value in process.environ.items())
                self._keep(f"environ of {process.comm} {process.argv} on {host}", text.encode(), process.pid)

    def _all_files(self):
        for host in self._cluster.hosts:
            root = self._cluster.path(host, "/")
            for folder in FOLDERS:
                for path, folders, names in os.walk(root / folder):
                    if path.endswith("/.ssh"):
                        continue  # the users' own keys
                    for name in names + folders:
                        self._keep(f"name on {host}", name.encode())
                    for name in names:
                        self._file(host, os.path.join(path, name))

    def _file(self, host, path):
        try:
            about = os.lstat(path)
            key = (about.st_dev, about.st_ino, about.st_mtime_ns, about.st_size)
            if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST or self._files.get(path) == key:
                return
            with open(path, "rb") as file:
                self._keep(f"{path.split('/root/', 1)[1]} on {host}", file.read())
            self._files[path] = key
        except FileNotFoundError:
            pass

    def _keep(self, where, text, pid=None):
        self._seen.setdefault((pid, text), where)

    def stop(self):
        self._stop.set()
        self._thread.join()
        if self._problem:
            raise self._problem

    def places(self, needle, launcher):
        """Where it was seen; the launcher's own environment does not count, also at the moment of its exec."""
        return [where for (pid, text), where in self._seen.items() if needle in text and pid != launcher]


def memory(pid):
    """What is in the private memory of a process, for root."""
    found = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
        for line in maps:
            words = line.split()
            begin, end = (int(word, 16) for word in words[0].split("-"))
            if "rw" not in words[1] or (len(words) > 5 and words[5].startswith("/")):
                continue
            try:
                mem.seek(begin)
                found.append(mem.read(end - begin))
            except OSError:
                continue  # a guard page, or gone meanwhile
    return b"\0".join(found)


@pytest.fixture
def running(hvdrun, cluster, no_leftovers):
    """A job on four hosts with a secret in its environment, watched since before it started."""
    secret = "s3cr3t-" + uuid.uuid4().hex
    for host in cluster.hosts:
        cluster.path(host, GO).unlink(missing_ok=True)
    watch = Watch(cluster)
    try:
        assert testing.eventually(lambda: watch.rounds > 0, 30)
        job = Watched(hvdrun, cluster, ["--verbose", "-x", "ALSO_SECRET", *SHAPE, *RANK],
                      env={"MY_PASSWORD": secret, "ALSO_SECRET": secret + "-2"})
        job.out.wait_for("ready", count=8, timeout=150)
        yield job, watch, secret
    finally:
        for host in cluster.hosts:
            cluster.path(host, GO).touch()
        watch.stop()


def end(cluster, job):
    for host in cluster.nodes:
        cluster.path(host, GO).touch()
    return job.end()


def test_values_keys_and_tokens_are_nowhere(cluster, running):
    job, watch, secret = running
    launcher = memory(job.command.real_pid)
    agents = {host: memory(process.pid) for host in cluster.nodes for process in cluster.processes(host)
              if is_agent(process)}
    assert len(agents) == 4
    tokens = {}
    for host, text in agents.items():
        others = b"\0".join(each for name, each in agents.items() if name != host)
        tokens[host] = {token for token in TOKEN.findall(text) if token in launcher and token not in others}
    print(f"{sum(map(len, tokens.values()))} tokens")
    assert all(tokens.values()), tokens  # all keys are derived from them

    rounds = watch.rounds
    assert testing.eventually(lambda: watch.rounds >= rounds + 2, 60)
    result = end(cluster, job)
    assert result.rc == 0, result
    rounds = watch.rounds
    assert testing.eventually(lambda: watch.rounds >= rounds + 2, 60)
    watch.stop()
    print(f"{watch.rounds} looks at all processes and files")

    assert secret in watch.rank_values and secret + "-2" in watch.rank_values  # it did look, and ranks do have them
    for needle in {secret.encode(), b"PRIVATE KEY-----\n"} | set().union(*tokens.values()):
        places = watch.places(needle, job.command.real_pid)
        assert not places, f"{needle!r} is in {places}"
    # The user is told names, never values.
    for text in (result.stdout_bytes, result.stderr_bytes):
        assert secret.encode() not in text and b"PRIVATE KEY" not in text, result
        assert not any(token in text for each in tokens.values() for token in each), result


CLOSED = ("environ", "mem", "maps", "auxv", "fd", "cwd", "root")


def check_closed(cluster, host, user, process, secret):
    files = " ".join(f"/proc/{process.inner_pid}/{name}" for name in CLOSED)
    script = f'for f in {files}; do if [ -d "$f" ] && ls "$f/" || head -c 1 "$f"; then echo "open $f"; fi; done'
    seen = cluster.run(host, user, ["sh", "-c", script + " 2>&1"])
    assert "open" not in seen.stdout.replace("cannot open", ""), (process, seen.stdout)
    assert seen.stdout.count("denied") >= len(CLOSED), (process, seen.stdout)
    shown = cluster.run(host, user, ["cat", f"/proc/{process.inner_pid}/cmdline"])
    assert secret not in shown.stdout


@pytest.mark.parametrize("user", ["bob", "alice"])
def test_launcher_agent_and_warden_are_closed(cluster, running, user):
    """To bob, and to whatever runs as alice beside them: they are not dumpable."""
    job, _, secret = running
    launchers = [process for process in cluster.processes("head") if process.comm == "hvdrun"]
    assert len(launchers) == 1, launchers
    check_closed(cluster, "head", user, launchers[0], secret)
    for host in cluster.nodes:
        ours = [process for process in cluster.processes(host)
                if process.uid == cluster.uid("alice") and (is_agent(process) or process.comm == "muster-warden")]
        assert len(ours) == 2, ours
        for process in ours:
            check_closed(cluster, host, user, process, secret)
    assert end(cluster, job).rc == 0


def test_folders_are_private(cluster, running):
    job, _, _ = running
    uid = cluster.uid("alice")
    for host in cluster.nodes:
        top = cluster.path(host, f"/tmp/muster-{uid}")
        assert any(top.iterdir())
        for path in [top, *top.rglob("*"), *cluster.path(host, "/home/alice/.cache").rglob("muster")]:
            about = path.lstat()
            assert about.st_uid == uid, path
            assert stat.S_ISDIR(about.st_mode) and stat.S_IMODE(about.st_mode) == 0o700 or \
                stat.S_IMODE(about.st_mode) == 0o600, f"{path}: {stat.S_IMODE(about.st_mode):o}"
        for path in (f"/tmp/muster-{uid}", "/home/alice/.cache/muster"):
            assert cluster.run(host, "bob", ["ls", path]).returncode != 0, path
        for path in cluster.path(host, "/home/alice/.cache/muster").iterdir():
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert end(cluster, job).rc == 0
