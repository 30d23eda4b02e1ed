"""What the programs of an emulated site share on the test hosts: /etc/site.json, which the test writes, and the state
of the jobs below a folder that all hosts see.

    STATE/next                      number of the next job
    STATE/nodes/NAME                the job that has this node
    STATE/jobs/ID/job.json          what was submitted
    STATE/jobs/ID/state.json        {"state": queued | running | exiting | finished, "pid", "hosts", "exit"}
    STATE/jobs/ID/sessions/HOST.SID sessions that belong to the job (pbs_attach, pbsdsh)
    STATE/jobs/ID/claims/HOST       the aprun that has this node
"""

import contextlib
import fcntl
import json
import os
import pathlib
import sys

CONFIG = "/etc/site.json"


def config():
    with open(CONFIG) as file:
        return json.load(file)


def fail(text, code=1):
    print(text, file=sys.stderr)
    sys.exit(code)


class State:
    def __init__(self, settings=None):
        self.config = settings or config()
        self.folder = pathlib.Path(self.config["state"])
        for name in ("nodes", "jobs"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def locked(self):
        with open(self.folder / "lock", "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def new_job(self, job):
        """Numbers and writes it; its folder."""
        with self.locked():
            counter = self.folder / "next"
            number = int(counter.read_text()) if counter.exists() else 1001
            counter.write_text(str(number + 1))
        folder = self.job(number)
        for name in ("sessions", "claims"):
            (folder / name).mkdir(parents=True)
        (folder / "job.json").write_text(json.dumps(job | {"number": number}))
        write_state(folder, {"state": "queued", "pid": None, "hosts": [], "exit": None, "start": None})
        return folder

    def job(self, number):
        return self.folder / "jobs" / str(number)

    def jobs(self):
        return sorted((self.folder / "jobs").iterdir(), key=lambda path: int(path.name))

    def allocate(self, number, count):
        """The names of `count` nodes, now this job's; None while there are not so many.  The first that fit."""
        with self.locked():
            free = [name for name in self.config["nodes"] if not (self.folder / "nodes" / name).exists()]
            if len(free) < count:
                return None
            for name in free[:count]:
                (self.folder / "nodes" / name).write_text(str(number))
            return free[:count]

    def release(self, hosts):
        with self.locked():
            for name in hosts:
                (self.folder / "nodes" / name).unlink()


def write_state(folder, state):
    (folder / "state.new").write_text(json.dumps(state))
    (folder / "state.new").rename(folder / "state.json")


def read_state(folder):
    return json.loads((folder / "state.json").read_text())


def read_job(folder):
    return json.loads((folder / "job.json").read_text())


def sessions(folder):
    """{host: {session}} of pbs_attach and pbsdsh."""
    found = {}
    for path in (folder / "sessions").iterdir():
        host, _, session = path.name.rpartition(".")
        found.setdefault(host, set()).add(int(session))
    return found
