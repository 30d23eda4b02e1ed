"""Each of examples/client runs, and says what it shows."""
import os
import pathlib
import re
import subprocess
import sys

import client as daemon_client
import pytest
from test_certificates import Authority

from muster.client import Client

EXAMPLES = daemon_client.ROOT / "examples" / "client"


class Shown:
    """Runs examples against one launcherd."""

    def __init__(self, daemon):
        self.daemon = daemon

    def run(self, name, *words, code=0):
        """What the example prints."""
        done = subprocess.run([sys.executable, EXAMPLES / name, *map(str, words)], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "MUSTER_LAUNCHER": f"unix:{self.daemon.socket}"}, check=False)
        assert done.returncode == code, done
        return done.stdout + done.stderr


@pytest.fixture
def shown(launcherd):
    return Shown(launcherd())


@pytest.fixture
def ended(shown):
    """A job that has ended."""
    with Client(f"unix:{shown.daemon.socket}") as client:
        job = client.submit(["sh", "-c", "echo one; echo two"], size=2, name="talks", environment={"PATH": "/usr/bin:/bin"})
        client.wait(job)
    return job


def test_submit_and_wait(shown):
    said = shown.run("submit_and_wait.py")
    assert re.search("SUCCEEDED with exit code 0", said) and said.count("on localhost exit code 0") == 2
    assert "FAILED with exit code 3" in shown.run("submit_and_wait.py", "sh", "-c", "exit 3")


def test_follow_logs(shown, ended):
    assert sorted(shown.run("follow_logs.py", ended).splitlines()) == ["[0] one", "[0] two", "[1] one", "[1] two"]


def test_watch_events(shown, ended):
    said = shown.run("watch_events.py", ended)
    assert "SUCCEEDED" in said and "rank 1 ended with 0" in said and "job_starting" in said


def test_many_jobs(shown):
    assert shown.run("many_jobs.py", "a", "b", "x" * 129).splitlines()[:2] == ["a ended with 0", "b ended with 0"]
    assert "was refused: name: " in shown.run("many_jobs.py", "x" * 129)


def test_submit_once(shown):
    assert shown.run("submit_once.py", "mine") == shown.run("submit_once.py", "mine") != shown.run("submit_once.py", "other")


def test_list_jobs(shown, ended):
    assert shown.run("list_jobs.py", "talks") == f"{ended} SUCCEEDED 2 talks\n"
    assert shown.run("list_jobs.py", "nothing") == ""


def test_hold_a_job(shown):
    assert shown.run("hold_a_job.py") == "held: True\nexit code: 0\n"


def test_drain_a_host(shown):
    assert shown.run("drain_a_host.py", "localhost") == "nothing runs on localhost\n"
    assert "elsewhere" in shown.run("drain_a_host.py", "elsewhere", code=1)


def test_async_jobs(shown):
    assert shown.run("async_jobs.py", "a", "b") == "a: exit code 0\nb: exit code 0\n"


def test_by_tcp(launcherd, tmp_path):
    authority = Authority(tmp_path, "ca")
    certificate, key = authority.issue("server", "DNS:localhost,IP:127.0.0.1")
    daemon = launcherd("--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key, "--client-ca",
                       authority.file("pem"), "--i-know-jobs-run-as-root", waits=False)
    address = f"localhost:{daemon.line_with('serving').split('127.0.0.1:')[1].split()[0]}"
    files = [*authority.issue("ann", "URI:muster://role/watch"), authority.file("pem")]
    said = Shown(daemon).run("by_tcp.py", address, *files)
    assert "has 4 slots" in said and "may not submit: " in said


def test_no_example_is_left_out():
    text = pathlib.Path(__file__).read_text()
    assert all(f'"{file.name}"' in text for file in EXAMPLES.glob("*.py"))


PYTHON = re.findall(r"^```python\n(.*?)^```", (daemon_client.ROOT / "docs/api.md").read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("index", "says"), [(0, ["[0] hello from rank 0", "[1] hello from rank 1", "SUCCEEDED 0"]),
                                             (1, ["spec.size is wrong: spec.size: "])])
def test_python_of_the_page(shown, tmp_path, index, says):
    (tmp_path / "page.py").write_text(PYTHON[index])
    said = shown.run(tmp_path / "page.py")
    assert len(PYTHON) == 2 and all(each in said for each in says), said


def test_curl_of_the_page(launcherd):
    """Each line that reads answers what it promises."""
    daemon = launcherd("--http", "127.0.0.1:0", waits=False)
    port = re.search(r"http://127\.0\.0\.1:(\d+)", daemon.line_with("serving"))[1]
    with Client(f"unix:{daemon.socket}") as client:
        job = client.submit(["echo", "hello"], size=2, environment={"PATH": "/usr/bin:/bin"})
        client.wait(job)
    page = (daemon_client.ROOT / "docs/api.md").read_text()
    lines = re.search(r"^```\n(curl .*?)^```", page, re.DOTALL | re.MULTILINE)[1].splitlines()
    said = [subprocess.run(["bash", "-c", line.replace(":7480", f":{port}")], env={**os.environ, "job": job}, capture_output=True,
                           text=True, timeout=60, check=True).stdout for line in lines]
    assert job in said[0] and job in said[1] and said[2] == "hello\n" and "job_ended" in said[3] and "localhost" in said[4]


def test_curl_that_submits(launcherd, tmp_path):
    """The whole block, as one script."""
    daemon = launcherd("--http", "127.0.0.1:0", "--http-write", waits=False)
    port = re.search(r"http://127\.0\.0\.1:(\d+)", daemon.line_with("serving"))[1]
    page = (daemon_client.ROOT / "docs/api.md").read_text()
    script = re.search(r"^```\n(\(umask.*?)^```", page, re.DOTALL | re.MULTILINE)[1].replace(":7480", f":{port}")
    said = subprocess.run(["bash", "-euo", "pipefail", "-c", script], env={**os.environ, "state": str(daemon.state)},
                          cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True).stdout
    for rank in (0, 1):
        assert f"hello from rank {rank}" in said, said
    assert '"name":"night"' in said and "JOB_STATE_SUCCEEDED" in said, said
