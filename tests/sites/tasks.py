"""Tasks on the nodes of an emulated site: started by node.py on each node, reached over ssh.

    app = Tasks([("nid00001", [{"rank": 0, "argv": […], "env": {}, "cpus": 0}]), …], env=dict(os.environ), cwd="/home/alice")
    ended = app.run(output=lambda rank, fd, data: …)     # {rank: status as of waitpid}; None: its node was lost
"""

import base64
import json
import os
import selectors
import signal
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
_NODE = ["/usr/bin/python3", "-IS", f"{HERE}/node.py"]
# Quick to notice a node that is gone; without questions.
SSH = ["ssh", "-oBatchMode=yes", "-oServerAliveInterval=3", "-oServerAliveCountMax=2", "-oConnectTimeout=10"]
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)


def on_node(host):
    """argv that runs node.py on a host; None is this one."""
    return _NODE if host is None else [*SSH, host, " ".join(_NODE)]


class Tasks:
    def __init__(self, nodes, env, cwd):
        """nodes: [(host, [task])]; env: what every task gets, completely."""
        self.pending = {host: {task["rank"] for task in tasks} for host, tasks in nodes}
        self.ended = {}
        self.got = None  # the last signal that was passed on
        self._connections = {}
        for host, tasks in nodes:
            process = subprocess.Popen(on_node(host), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
            process.stdin.write(json.dumps({"cwd": cwd, "env": env, "tasks": tasks}).encode() + b"\n")
            process.stdin.flush()
            self._connections[host] = process

    def signal(self, number):
        for process in self._connections.values():
            try:
                process.stdin.write(json.dumps({"signal": int(number)}).encode() + b"\n")
                process.stdin.flush()
            except (BrokenPipeError, ValueError):
                pass  # that node has ended

    def run(self, output, on_end=lambda rank, status: None, on_signal=None, wait=lambda: None, on_time=lambda: None):
        """Until every task has ended or its node is lost.  wait() says for how many seconds to wait at most before
        on_time() is called.  Signals to this process go to the tasks, or to on_signal."""
        number_read, number_write = os.pipe2(os.O_NONBLOCK)
        signal.set_wakeup_fd(number_write)
        for number in FORWARDED:
            signal.signal(number, lambda *_: None)
        selector = selectors.DefaultSelector()
        selector.register(number_read, selectors.EVENT_READ, None)
        buffers = {}
        for host, process in self._connections.items():
            selector.register(process.stdout, selectors.EVENT_READ, host)
            buffers[host] = b""
        while any(self.pending.values()):
            for key, _ in selector.select(wait()):
                if key.data is None and key.fd == number_read:
                    for number in os.read(number_read, 64):
                        self.got = number
                        (on_signal or self.signal)(number)
                    continue
                data = os.read(key.fd, 1 << 20)
                if not data:
                    selector.unregister(key.fileobj)
                    self._lost(key.data, on_end)
                    continue
                *lines, buffers[key.data] = (buffers[key.data] + data).split(b"\n")
                for line in lines:
                    self._heard(key.data, json.loads(line), output, on_end)
            on_time()
        self.close()
        return self.ended

    def _heard(self, host, message, output, on_end):
        if "data" in message:
            output(message["rank"], message["fd"], base64.b64decode(message["data"]))
            return
        self.pending[host].discard(message["rank"])
        self.ended[message["rank"]] = message["status"]
        on_end(message["rank"], message["status"])

    def _lost(self, host, on_end):
        for rank in sorted(self.pending[host]):
            self.ended[rank] = None
            on_end(rank, None)
        self.pending[host] = set()

    def close(self):
        for process in self._connections.values():
            try:
                process.stdin.close()
            except BrokenPipeError:
                pass
            process.stdout.close()
            process.wait()


def kill_sessions(host, sessions, number):
    """Sends a signal to sessions of a host (None: this one); a host that cannot be reached keeps them."""
    if not sessions:
        return
    words = ["kill", str(int(number)), *map(str, sorted(sessions))]
    argv = [*_NODE, *words] if host is None else [*SSH, host, " ".join([*_NODE, *words])]
    subprocess.run(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def exit_code(status):
    """As a shell says it; 255 for a lost node."""
    if status is None:
        return 255
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
