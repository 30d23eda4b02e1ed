"""A launcherd for each test, on slots of this host, with a state directory and a socket of its own."""
import os
import pathlib
import queue
import subprocess
import sys
import threading

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import client  # noqa: E402

BIN = pathlib.Path(os.environ.get("MUSTER_BIN_DIR", client.ROOT / "build/release/bin"))
PATIENCE = 60


class Launcherd:
    """A launcherd that serves, or has ended."""

    def __init__(self, stubs, directory, arguments, hosts, listen, sessions, environment=None):
        self.stubs = stubs
        self.socket = directory / "sockets/launcherd.sock"
        self.state = directory / "state"
        self.lines = queue.Queue()
        command = [BIN / "launcherd", *hosts, "--state", self.state, *arguments]
        command += ["--listen", f"unix:{self.socket}"] if listen else []
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, cwd=sessions,
                                        env={**os.environ, "MUSTER_TMPDIR": str(sessions), **(environment or {})})
        self.reader = threading.Thread(target=self.read_lines)
        self.reader.start()
        self.channel = None

    def read_lines(self):
        for line in self.process.stderr:
            self.lines.put(line)
        self.lines.put(None)

    def line_with(self, text):
        """Waits for a line on its stderr."""
        seen = []
        while True:
            line = self.lines.get(timeout=PATIENCE)
            assert line is not None, f"launcherd ended without '{text}': {''.join(seen)}"
            seen.append(line)
            if text in line:
                return line

    def client(self):
        import grpc
        self.channel = self.channel or grpc.insecure_channel(f"unix:{self.socket}")
        return client.Client(self.stubs, self.channel)

    def end_jobs(self):
        """Jobs outlive their launcherd: those that have not ended are killed."""
        api = self.client()
        for job in api.api.ListJobs(api.stubs.launcher.ListJobsRequest(page_size=1000), timeout=PATIENCE).jobs:
            try:
                api.kill(job.id, at_once=True)
            except Exception as error:  # it has ended meanwhile
                assert "has ended" in str(error)
            for _ in api.watch(job.id):
                pass

    def end(self, signal="TERM"):
        """Its exit code."""
        if self.channel is not None:
            self.channel.close()
        if self.process.poll() is None:
            self.process.send_signal(getattr(__import__("signal"), f"SIG{signal}"))
        self.process.wait(timeout=PATIENCE)
        self.reader.join(timeout=PATIENCE)
        self.process.stderr.close()
        return self.process.returncode


@pytest.fixture(scope="session")
def stubs(tmp_path_factory):
    if client.why_not() is not None:
        pytest.skip(client.why_not())
    return client.Stubs(tmp_path_factory.mktemp("stubs"))


@pytest.fixture
def launcherd(stubs, tmp_path):
    """launcherd(arguments…, slots=N): starts one and waits until it serves. Again after end(): the same state."""
    started = []

    def start(*arguments, slots=4, hosts=None, waits=True, listen=True, directory=tmp_path, environment=None):
        one = Launcherd(stubs, directory, arguments, hosts or ["-H", f"localhost:{slots}"], listen, tmp_path,
                        environment)
        started.append(one)
        if waits:
            one.line_with("serving")
        return one

    start.started = started
    yield start
    for one in started:
        if one.process.poll() is not None:
            one.end()
            continue
        if one.socket.exists():
            one.end_jobs()
        assert one.end() == 0


@pytest.fixture
def api(launcherd):
    return launcherd().client()
