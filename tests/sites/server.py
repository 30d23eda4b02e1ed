#!/usr/bin/python3
"""The scheduler's part of one job, from its submission to its end; qsub starts it.

    server.py JOB_FOLDER

Waits for nodes, runs the script (on the first node, or here: the MOM node of a Cray), ends it at the walltime and when
qdel asks (SIGTERM to this process): SIGTERM, after kill_delay SIGKILL to the sessions that the scheduler knows.
"""

import os
import pathlib
import select
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from site_state import State, read_job, sessions, write_state  # noqa: E402
from tasks import Tasks, exit_code, kill_sessions  # noqa: E402

LOGIN_PATH = "/usr/local/bin:/usr/bin:/bin"


class Server:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.job = read_job(self.folder)
        self.state = State()
        self.hosts = []
        self._kill_at = None
        self._start = None
        self._tasks = None
        self._why = ""

    def say(self, state, code=None):
        write_state(self.folder, {"state": state, "pid": os.getpid(), "hosts": self.hosts, "exit": code, "why": self._why,
                                  "start": self._start})

    def run(self):
        self.say("queued")
        if self._wait_for_nodes():
            self._start = int(time.time())
            self.say("running")
            code = self._run_script()
            self.say("exiting", code)
            self._end_sessions()
            self.state.release(self.hosts)
            self._finish(code)
        else:
            self._finish(271)  # as PBS numbers a job that was deleted: 256 + SIGTERM

    def _finish(self, code):
        self.say("finished", code)

    def _wait_for_nodes(self):
        """False: deleted while it was queued."""
        asked, asked_write = os.pipe2(os.O_NONBLOCK)
        signal.set_wakeup_fd(asked_write)
        signal.signal(signal.SIGTERM, lambda *_: None)
        while True:
            self.hosts = self.state.allocate(self.job["number"], self.job["nodes"]) or []
            if self.hosts:
                return True
            if select.select([asked], [], [], 0.1)[0]:
                self._why = "deleted"
                return False

    def _run_script(self):
        config = self.state.config
        host = None if config["script_on"] == "mom" else self.hosts[0]
        self._write_node_file()
        script = {"rank": 0, "argv": self.job["argv"], "env": {}, "cpus": 0}
        files = {number: open(self.job["files"][str(number)], "ab", buffering=0) for number in (1, 2)}
        self._limit_at = time.monotonic() + self.job["walltime"]
        self._tasks = Tasks([(host, [script])], env=self._environment(), cwd=self.job["cwd"])
        ended = self._tasks.run(lambda rank, fd, data: files[fd].write(data), on_signal=self._asked, wait=self._wait,
                                on_time=self._look_at_clock)
        for file in files.values():
            file.close()
        is_signal = ended[0] is not None and os.WIFSIGNALED(ended[0]) and config["scheduler"] == "pbs"
        return 256 + os.WTERMSIG(ended[0]) if is_signal else exit_code(ended[0])

    def _environment(self):
        home = os.path.expanduser("~")
        own = {name: os.environ[name] for name in ("USER", "LOGNAME", "SHELL", "LANG") if name in os.environ}
        path = ":".join([*self.state.config["path"], LOGIN_PATH])
        described = {name: value.format(hosts=",".join(self.hosts), nodefile=self.folder / "nodefile",
                                        partition=self._partition(), start=self._start,
                                        end=self._start + self.job["walltime"]) for name, value in self.job["describe"].items()}
        return own | {"HOME": home, "PATH": path} | self.job["env"] | described

    def _write_node_file(self):
        domain = self.state.config.get("domain")
        names = [f"{host}.{domain}" if domain else host for host in self.hosts]
        lines = [name for name in names for _ in range(self.job["lines_per_node"])]
        (self.folder / "nodefile").write_text("".join(f"{name}\n" for name in lines))

    def _partition(self):
        """Cobalt's list of a Cray's node numbers, as 1-3,7; elsewhere the names."""
        if not all(host.startswith("nid") for host in self.hosts):
            return ",".join(self.hosts)
        ranges = []
        for number in sorted(int(host.removeprefix("nid")) for host in self.hosts):
            if ranges and ranges[-1][1] == number - 1:
                ranges[-1][1] = number
            else:
                ranges.append([number, number])
        return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in ranges)

    def _asked(self, number):
        if number == signal.SIGTERM:
            self._begin_end("deleted")
        elif number in (signal.SIGUSR1, signal.SIGUSR2):
            self._tasks.signal(number)  # qsig

    def _begin_end(self, why):
        if self._kill_at is None:
            self._why = why
            self._kill_at = time.monotonic() + self.state.config["kill_delay"]
            self._tasks.signal(signal.SIGTERM)
            self._signal_sessions(signal.SIGTERM)

    def _wait(self):
        until = self._limit_at if self._kill_at is None else self._kill_at
        return max(0.0, until - time.monotonic())

    def _look_at_clock(self):
        now = time.monotonic()
        if self._kill_at is None and now >= self._limit_at:
            self._begin_end("walltime")
        elif self._kill_at is not None and now >= self._kill_at:
            self._tasks.signal(signal.SIGKILL)
            self._kill_at = now + 3600

    def _signal_sessions(self, number):
        for host, found in sessions(self.folder).items():
            kill_sessions(host, found, number)

    def _end_sessions(self):
        """What the scheduler knows beyond the script; ssh sessions that nobody attached it does not know."""
        self._signal_sessions(signal.SIGKILL)


if __name__ == "__main__":
    Server(sys.argv[1]).run()
