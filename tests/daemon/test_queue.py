"""Who waits, why, and who starts first."""
import concurrent.futures
import os

import grpc
import pytest


class Gate:
    """A job that ends when it is told to."""

    def __init__(self, api, directory, size):
        self.path = directory / f"gate-{size}"
        os.mkfifo(self.path)
        self.job = api.submit(["cat", str(self.path)], size=size, on_exit="ON_EXIT_WAIT")
        self.size = size
        api.until(self.job, "RUNNING")

    def open(self):
        os.close(os.open(self.path, os.O_WRONLY))


@pytest.fixture
def gate(api, tmp_path):
    return lambda size: Gate(api, tmp_path, size)


def started(api, job):
    time = api.get(job).started
    return time.seconds, time.nanos


def test_a_waiting_job_says_why(api, gate):
    blocker = gate(3)
    job = api.submit(["true"], size=4)
    waiting = api.get(job)
    assert api.state(job) == "QUEUED"
    assert waiting.reason == "needs 4 slots, 1 is free on localhost"
    assert waiting.size == 4
    api.kill(blocker.job)
    assert api.wait(job).exit_code == 0


def test_priority_goes_first_then_the_order(api, gate):
    blocker = gate(4)
    low = [api.submit(["true"], size=4) for _ in range(2)]
    high = api.submit(["true"], size=4, request_priority=7)
    api.kill(blocker.job)
    for job in [*low, high]:
        assert api.wait(job).exit_code == 0
    assert started(api, high) < started(api, low[0]) < started(api, low[1])


def test_small_jobs_run_while_a_large_one_waits(api, gate):
    blocker = gate(3)
    large = api.submit(["true"], size=4)
    small = api.submit(["true"], size=1)
    assert api.wait(small).exit_code == 0
    assert api.state(large) == "QUEUED"
    api.kill(blocker.job)
    assert api.wait(large).exit_code == 0


def test_a_waiting_job_is_killed_where_it_waits(api, gate):
    gate(4)
    job = api.submit(["true"])
    api.kill(job)
    assert (api.wait(job).exit_code, api.state(job)) == (143, "KILLED")
    assert not api.output(job)


def test_a_deadline_passes_while_a_job_waits(api, gate):
    blocker = gate(4)
    now = api.get(blocker.job).started
    job = api.submit(["true"], deadline={"seconds": now.seconds + 2})
    assert (api.wait(job).exit_code, api.state(job)) == (124, "KILLED")


def test_a_request_id_makes_one_job(api):
    request = api.request(["true"], request_request_id="the-same")
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        jobs = set(pool.map(lambda _: api.send(request), range(40)))
    assert len(jobs) == 1
    api.wait(jobs.pop())
    assert api.send(request) == api.get(api.send(request)).id  # also when it has ended
    other = api.request(["false"], request_request_id="the-same")
    with pytest.raises(grpc.RpcError) as error:
        api.send(other)
    assert error.value.code() == grpc.StatusCode.ALREADY_EXISTS


def test_a_drained_host_takes_nothing(launcherd):
    daemon = launcherd()
    api = daemon.client()
    launcher = api.stubs.launcher
    host = api.api.DrainHost(launcher.DrainHostRequest(host="localhost", reason="new fan"), timeout=api.PATIENCE)
    assert host.drained and host.reason == "new fan"
    job = api.submit(["true"])
    assert "localhost is drained" in api.get(job).reason
    daemon.end()
    again = launcherd()  # remembers it
    api = again.client()
    (host,) = api.api.ListHosts(launcher.ListHostsRequest(), timeout=api.PATIENCE).hosts
    assert (host.drained, host.reason, host.slots, host.used_slots) == (True, "new fan", 4, 0)
    assert api.state(job) == "QUEUED"
    api.api.ResumeHost(launcher.ResumeHostRequest(host="localhost"), timeout=api.PATIENCE)
    assert api.wait(job).exit_code == 0


def test_the_hostfile_is_read_again(launcherd, tmp_path):
    hostfile = tmp_path / "hosts"
    hostfile.write_text("localhost slots=1\n")
    daemon = launcherd(hosts=["--hostfile", hostfile])
    api = daemon.client()
    with pytest.raises(grpc.RpcError) as error:
        api.submit(["true"], size=2)
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    hostfile.write_text("localhost slots=2\n")
    daemon.process.send_signal(1)
    daemon.line_with("with 1 host and 2 slots")
    assert api.wait(api.submit(["true"], size=2)).exit_code == 0
    hostfile.write_text("-oBad\n")
    daemon.process.send_signal(1)
    daemon.line_with("the hosts were not changed")


def test_fair_use_lets_those_go_first_who_use_less(launcherd, tmp_path):
    api = launcherd("--fair-use", "label:who", slots=2).client()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def submit(who, *command):
        return api.submit(command, request_labels=[{"name": "who", "value": who}], on_exit="ON_EXIT_WAIT")

    long = submit("ann", "cat", str(fifo))
    blocker = submit("bob", "sleep", "1000")
    for job in (long, blocker):
        api.until(job, "RUNNING")
    anns = [submit("ann", "true") for _ in range(2)]
    bobs = [submit("bob", "true") for _ in range(2)]
    api.kill(blocker)
    for job in [*anns, *bobs]:
        assert api.wait(job).exit_code == 0
    assert max(started(api, job) for job in bobs) < min(started(api, job) for job in anns)
    os.close(os.open(fifo, os.O_WRONLY))
    assert api.wait(long).exit_code == 0
