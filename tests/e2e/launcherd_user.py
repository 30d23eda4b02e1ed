"""alice's launcherd on head of the test hosts, and what she asks it.

    launcherd = Launcherd(hvdrun, cluster)
    job = launcherd.submit("-np", "8", "sh", "-c", "echo hello")
    assert launcherd.asked("wait", job) == ""
    launcherd.die()        # kill -9
    launcherd.come_back()  # another one, on the same state
    launcherd.close()
"""

import json
import re
import signal

from cluster import testing
from conftest import BIN_DIR, FANOUT
from console import Watched

MUSTER = str(BIN_DIR / "muster")
STATE = "/home/alice/launcherd-state"
HOSTS = "n1:2,n2:2,n3:2,n4:2"


class Launcherd:
    def __init__(self, hvdrun, cluster, *args, hosts=HOSTS, bin_dir=BIN_DIR):
        self.bin_dir = bin_dir  # the build whose launcherd comes back, and whose muster asks it
        self.list = ["-H", hosts] if hosts else []
        self.hvdrun = hvdrun
        self.cluster = cluster
        self.args = args
        self.come_back()

    def come_back(self):
        argv = [str(self.bin_dir / "launcherd"), *FANOUT, *self.list, "--state", STATE, *self.args]
        self.watched = Watched(self.hvdrun, self.cluster, argv=argv)
        self.watched.err.wait_for("serving unix:")

    def wait_for_agents(self):
        """After come_back(): until the agents have found this launcherd. An agent that looks for one outlives it."""
        found = testing.eventually(
            lambda: all(host["agent"] != "AGENT_STATE_SUSPECT" for host in self.hosts()), 30)
        assert found, self.hosts()

    def die(self):
        self.watched.signal(signal.SIGKILL)
        assert self.watched.command.wait(20) == -signal.SIGKILL

    def muster(self, *args, user="alice", **options):
        return self.cluster.run("head", user, [self.bin_dir / "muster", *map(str, args)], timeout=60, **options)

    def asked(self, *args, code=0, **options):
        result = self.muster(*args, **options)
        assert result.returncode == code, result
        return result.stdout

    def submit(self, *args, **options):
        job = self.asked("submit", *args, **options).strip()
        assert re.fullmatch("[a-z2-7]{8}", job), job
        return job

    def watch(self, *args, **options):
        return Watched(self.hvdrun, self.cluster, argv=[self.bin_dir / "muster", *map(str, args)], **options)

    def run(self, *args, **options):
        return Watched(self.hvdrun, self.cluster, args=["--launcher", "auto", *args], **options)

    def job(self, job):
        return json.loads(self.asked("status", "--json", job))

    def hosts(self):
        return list(map(json.loads, self.asked("hosts", "--json").splitlines()))

    def host(self, name):
        return {host["name"]: host for host in self.hosts()}[name]

    def close(self):
        if self.watched.command.poll() is None:
            self.watched.signal(signal.SIGTERM)
            assert self.watched.end().rc == 0
        self.cluster.run("head", "alice", ["rm", "-rf", STATE], check=True)
