#!/usr/bin/python3
"""What an emulated site's daemon does on one node: starts tasks, passes on their output, sends them signals.

stdin: one JSON line {"cwd", "env", "tasks": [{"rank", "argv", "env", "cpus"}]}, then lines {"signal": NUMBER}; its end
means that whoever asked is gone: all tasks are killed.  stdout: JSON lines {"rank", "fd", "data"} and {"rank",
"status"} (as of waitpid).  Of what a task has started only its session is known, as to PBS: what left it stays.

    node.py kill SIGNAL SESSION…     sends a signal to whole sessions and ends
"""

import base64
import json
import os
import selectors
import signal
import subprocess
import sys


def members(sessions):
    """The processes of these sessions."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) in sessions and fields[0] not in "ZX":
            found.append(pid)
    return found


def kill_sessions(sessions, number):
    for pid in members(sessions):
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # ended, or is root's part of an ssh session


def confine(cpus):
    """Restricts the calling process to the first `cpus` of its processors; 0: leaves them all."""
    allowed = sorted(os.sched_getaffinity(0))
    if 0 < cpus < len(allowed):
        os.sched_setaffinity(0, allowed[:cpus])


class Node:
    def __init__(self, spec):
        self._selector = selectors.DefaultSelector()
        self._tasks = {}  # pid -> rank
        self._sessions = set()
        for task in spec["tasks"]:
            self._start(task, spec)

    def _start(self, task, spec):
        try:
            process = subprocess.Popen(task["argv"], cwd=spec["cwd"], env=spec["env"] | task["env"],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       start_new_session=True, preexec_fn=lambda: confine(task["cpus"]))
        except OSError as problem:
            self._tell({"rank": task["rank"], "fd": 2, "data": _text(f"{task['argv'][0]}: {problem.strerror}\n".encode())})
            self._tell({"rank": task["rank"], "status": 127 << 8})
            return
        self._tasks[process.pid] = task["rank"], process
        self._sessions.add(process.pid)
        for number, pipe in ((1, process.stdout), (2, process.stderr)):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, (task["rank"], number))

    def run(self):
        wake, wake_write = os.pipe2(os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(wake, selectors.EVENT_READ, "wake")
        self._selector.register(0, selectors.EVENT_READ, "orders")
        self._reap()
        while self._tasks:
            for key, _ in self._selector.select():
                if key.data == "orders":
                    self._obey(os.read(0, 65536))
                elif key.data == "wake":
                    os.read(wake, 4096)
                else:
                    self._pass_on(key)
            self._reap()
        kill_sessions(self._sessions, signal.SIGKILL)  # what the tasks left in their sessions

    def _obey(self, orders):
        if not orders:
            kill_sessions(self._sessions, signal.SIGKILL)
            os._exit(1)
        for line in orders.splitlines():
            kill_sessions(self._sessions, json.loads(line)["signal"])

    def _pass_on(self, key):
        """One read of a task's pipe; whether there was something."""
        rank, number = key.data
        try:
            data = os.read(key.fd, 65536)
        except BlockingIOError:
            return False
        if not data:
            self._selector.unregister(key.fileobj)
            return False
        self._tell({"rank": rank, "fd": number, "data": _text(data)})
        return True

    def _reap(self):
        for pid in list(self._tasks):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                rank, process = self._tasks.pop(pid)
                for key in [key for key in self._selector.get_map().values() if key.fileobj in (process.stdout, process.stderr)]:
                    while self._pass_on(key):
                        pass
                self._tell({"rank": rank, "status": os.waitpid(pid, 0)[1]})
                process.returncode = 0  # reaped here

    @staticmethod
    def _tell(message):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def _text(data):
    return base64.b64encode(data).decode()


if __name__ == "__main__":
    if sys.argv[1:2] == ["kill"]:
        kill_sessions(set(map(int, sys.argv[3:])), int(sys.argv[2]))
    else:
        Node(json.loads(sys.stdin.buffer.raw.readline())).run()
