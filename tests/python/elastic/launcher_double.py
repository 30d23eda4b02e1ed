"""A test double of the launcher of an elastic job: it starts processes, and serves Horovod's elastic protocol.

It has none of the launcher's rules (discovery, black-list, limits). The test says which hosts the next world has. Every
process has a host name of its own, h0, h1, ..., and local rank 0.
"""

import base64
import contextlib
import hashlib
import hmac
import http.server
import pickle
import socket
import struct
import subprocess
import sys
import threading
import time


class LauncherDouble:
    """`program` is a list of words after the name of Python, which is `python`. `variables` are added to the environment of each process.
    `reports_over`: whether ranks that still join learn at once that a process of their world has ended. `replaces`:
    whether a new process takes the place of one that has failed. `are_apart`: whether libmuster takes the processes for
    processes of different hosts. They then use TCP instead of shared memory."""

    def __init__(self, program, folder, variables, reports_over=True, replaces=False, are_apart=False,
                 python=sys.executable):
        self.program = program
        self.folder = folder
        self.variables = variables
        self.reports_over = reports_over
        self.replaces = replaces
        self.are_apart = are_apart
        self.python = python
        self.changed = threading.Condition()
        self.keys = {}
        self.hosts = []  # of the world in force; the index is the rank
        self.wanted = None  # hosts of the next world; None: those that are left
        self.generation = -1
        self.processes = {}  # host -> Popen
        self.exits = {}  # host -> exit code
        self.logs = {}  # host -> name of its process's log, without the ending
        self.ready = {}  # host -> number of the request that waits
        self.answers = {}  # (host, request) -> text
        self.requests = 0
        self.addresses = {}  # host -> bytes
        self.is_closed = False
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with self.changed:
            self.is_closed = True
            self.changed.notify_all()
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.server.shutdown()
        self.server.server_close()

    def start(self, hosts):
        """Begins the first world."""
        with self.changed:
            self._publish(hosts)

    def _publish(self, hosts):
        self.generation += 1
        self.hosts = list(hosts)
        self.wanted = None
        self.keys.clear()
        self.ready_before, self.ready = self.ready, {}
        new = [host for host in hosts if host not in self.processes or host in self.exits]
        for host in new:
            self.exits.pop(host, None)
            self._spawn(host)
        # Survivors wait until new processes have come as far as init().
        threading.Thread(target=self._release, args=(self.generation, new), daemon=True).start()

    def _release(self, generation, new):
        waiting = self.ready_before
        with self.changed:
            self.changed.wait_for(lambda: self.is_closed or all(
                f"/global/rank_{self.hosts.index(host)}" in self.keys or host in self.exits for host in new))
            for host, request in waiting.items():
                numbers = [-1] * 6
                if host in self.hosts:
                    rank, size = self.hosts.index(host), len(self.hosts)
                    numbers = [rank, size, 0, 1, rank, size]
                self.answers[host, request] = (",".join(map(str, numbers)), generation)
            self.changed.notify_all()

    def _spawn(self, host):
        rank, size = self.hosts.index(host), len(self.hosts)
        variables = {
            **self.variables, "HOROVOD_ELASTIC": "1", "HOROVOD_HOSTNAME": host, "HOROVOD_RANK": str(rank),
            "HOROVOD_SIZE": str(size), "HOROVOD_LOCAL_RANK": "0", "HOROVOD_LOCAL_SIZE": "1",
            "HOROVOD_CROSS_RANK": str(rank), "HOROVOD_CROSS_SIZE": str(size), "HOROVOD_GLOO_IFACE": "lo",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1", "MUSTER_GENERATION": str(self.generation),
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(self.server.server_address[1]),
            "LOG": str(self.folder / f"{host}.{self.generation}.log")}
        if self.are_apart:
            variables["MUSTER_HOSTNAME"] = host
        with open(self.folder / f"{host}.{self.generation}.err", "wb") as errors:
            process = subprocess.Popen([self.python, *self.program], env=variables, stdin=subprocess.DEVNULL,
                                       stdout=errors, stderr=errors)
        self.processes[host] = process
        self.logs[host] = f"{host}.{self.generation}"
        threading.Thread(target=self._wait_for, args=(host, process), daemon=True).start()

    def _wait_for(self, host, process):
        code = process.wait()
        with self.changed:
            if self.is_closed:
                return
            if self.processes[host] is not process:
                return
            self.exits[host] = code
            self.ready.pop(host, None)
            if host in self.hosts and self.reports_over:
                self.keys["/muster.elastic/over"] = str(self.generation).encode()
            self._decide()
            self.changed.notify_all()

    def _decide(self):
        """Publishes the next world once every process of this one waits for it or has ended."""
        if not self.ready or not all(host in self.ready or host in self.exits for host in self.hosts):
            return
        if any(self.exits.get(host) == 0 for host in self.hosts):
            return  # a process has finished: the job ends
        hosts = [host for host in self.hosts if host in self.ready]
        if self.replaces:
            hosts += [host for host in self.hosts if host not in hosts]
        if self.wanted is not None:
            old = [host for host in hosts if host in self.wanted]
            hosts = old + [host for host in self.wanted if host not in self.hosts]
        self._publish(hosts)

    def rank_and_size(self, host):
        """Waits for the next world. Returns (text, generation); None at the end of the test."""
        with self.changed:
            self.requests += 1
            request = self.requests
            self.ready[host] = request
            self._decide()
            self.changed.wait_for(lambda: self.is_closed or (host, request) in self.answers)
            return self.answers.pop((host, request), None)

    def resize(self, hosts, res=3):
        """Says which hosts the next world has, and notifies the process of rank 0 as Horovod's driver does."""
        with self.changed:
            self.wanted = list(hosts)
            self.changed.wait_for(lambda: self.hosts[0] in self.addresses, 60)
            description = self.addresses[self.hosts[0]]
        addresses, key = pickle.loads(base64.b64decode(description))
        [(host, port)] = addresses["lo"]
        return notify(host, port, key, int(time.time()), res)

    def wait(self, seconds=120):
        """Waits until all processes have ended. Returns {host: exit code}."""
        with self.changed:
            if not self.changed.wait_for(lambda: set(self.exits) == set(self.processes), seconds):
                raise AssertionError(f"these have not ended: {set(self.processes) - set(self.exits)}; {self.errors()}")
            return dict(self.exits)

    def errors(self):
        """Returns what the processes have printed."""
        return {path.name: path.read_text()[-3000:] for path in sorted(self.folder.glob("*.err"))}


def hosts_updated(timestamp, res):
    """Returns the pickle of Horovod's HostsUpdatedRequest."""
    return (b"\x80\x02chorovod.runner.elastic.worker\nHostsUpdatedRequest\n)\x81}(X\x09\x00\x00\x00timestampJ" +
            struct.pack("<i", timestamp) + b"X\x03\x00\x00\x00reschorovod.runner.elastic.worker\nHostUpdateResult\nK" +
            bytes([res]) + b"\x85Rub.")


def ask(host, port, key, body):
    """Sends a body to a notification service. Returns the body of the answer; b"" if it closes the connection."""
    with socket.create_connection((host, port), 20) as connection, connection.makefile("rb") as stream:
        connection.sendall(hmac.new(key, body, hashlib.sha256).digest() + struct.pack("=i", len(body)) + body)
        digest, head = stream.read(32), stream.read(4)
        if not head:
            return b""
        answer = stream.read(struct.unpack("=i", head)[0])
        assert digest == hmac.new(key, answer, hashlib.sha256).digest()
        return answer


def notify(host, port, key, timestamp, res):
    """Reports that hosts have changed. Returns the answer."""
    return ask(host, port, key, hosts_updated(timestamp, res))


def _handler_of(launcher):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def answer(self, status, body=b"", generation=None):
            self.send_response(status)
            if generation is not None:
                self.send_header("Muster-Generation", str(generation))
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            with contextlib.suppress(OSError):  # the process may have been killed
                self.wfile.write(body)
            self.close_connection = True

        def do_GET(self):
            if self.path.startswith("/rank_and_size/"):
                answer = launcher.rank_and_size(self.path.rsplit("/", 1)[1].rsplit(":", 1)[0])
                if answer is not None:
                    self.answer(200, answer[0].encode(), answer[1])
                return
            with launcher.changed:
                value = launcher.keys.get(self.path)
            self.answer(404 if value is None else 200, value or b"")

        def do_PUT(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with launcher.changed:
                if self.path.startswith("/worker_addresses/"):
                    launcher.addresses[self.path.rsplit("/", 1)[1].rsplit(":", 1)[0]] = body
                else:
                    launcher.keys[self.path] = body
                launcher.changed.notify_all()
            self.answer(200)

        def do_DELETE(self):
            self.answer(200)

    return Handler
