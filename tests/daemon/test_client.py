"""muster.client's Client against a launcherd: each call, errors, threads, TLS, a launcher that is not there."""
import datetime
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import pytest
from cluster.testing import eventually
from test_certificates import Authority

from muster.client import calls
from muster.client import (AlreadyExists, Cancelled, Client, DeadlineExceeded, FailedPrecondition, InvalidArgument, JobSpec,
                           JobState, MusterError, NotFound, PermissionDenied, ResourceExhausted, SubmitRequest, TlsFiles,
                           Unavailable, job_request)

PATH = {"PATH": "/usr/bin:/bin"}


def client_of(daemon, **options):
    return Client(f"unix:{daemon.socket}", **options)


@pytest.fixture
def client(launcherd):
    with client_of(launcherd()) as one:
        yield one


def run(client, *words, **fields):
    return client.submit(words, environment=PATH, **fields)


def until(client, job, state):
    """Waits until the job is in this state; returns the number of the event that says so."""
    with client.watch(job, timeout=60) as events:
        for event in events:
            if event.HasField("job_state_changed") and event.job_state_changed.state == state:
                return event.sequence
    raise AssertionError(f"{job} never was {state.name}")


def output(client, job, **options):
    return b"".join(chunk.data for chunk in client.logs(job, **options))


def test_a_job_from_its_submission_to_its_end(client, tmp_path):
    job = client.submit(["sh", "-c", 'echo "$WORD" in "$PWD"; umask; exit 3'], size=2, name="night", priority=2,
                        labels={"project": "physics"}, working_directory=tmp_path.as_posix(), umask=0o27,
                        environment={**PATH, "WORD": b"\xff"}, retention=3600, timeout=100.5, max_restarts=0)
    ended = client.wait(job, timeout=60)
    assert (ended.id, JobState(ended.state), ended.exit_code, ended.name) == (job, JobState.FAILED, 3, "night")
    assert JobState(ended.state).is_final and (ended.size, len(ended.ranks), ended.priority) == (2, 2, 2)
    assert [(label.name, label.value) for label in ended.labels] == [("project", "physics")]
    assert not client.get(job, ranks=False).ranks
    assert output(client, job, ranks=[0]) == b"\xff in " + os.fsencode(tmp_path) + b"\n0027\n"
    assert output(client, job, tail_lines=1, ranks=[1]) == b"0027\n"
    later = datetime.datetime.now() + datetime.timedelta(hours=1)
    assert output(client, job, since=later) == b""
    numbers = [event.sequence for event in client.watch(job)]
    assert numbers == list(range(1, ended.last_event + 1))
    assert [event.sequence for event in client.watch(job, from_sequence=3)] == numbers[2:]
    assert not list(client.watch(job, from_sequence=10**9))


def test_output_is_read_from_any_position(client):
    job = run(client, "sh", "-c", "for i in 1 2 3 4 5; do echo line $i; done")
    client.wait(job)
    chunks = list(client.logs(job, follow=True))
    whole = b"".join(chunk.data for chunk in chunks)
    assert whole == b"".join(b"line %d\n" % number for number in range(1, 6))
    for index, chunk in enumerate(chunks):
        rest = b"".join(each.data for each in chunks[index + 1:])
        assert output(client, job, from_position=chunk.next_position) == rest


def test_the_same_request_makes_one_job(client):
    request = job_request(["true"], environment=PATH)
    assert request.request_id and request.request_id != job_request(["true"]).request_id
    assert client.submit(request) == client.submit(request)
    with pytest.raises(AlreadyExists, match="request_id: already used for job"):
        client.submit(["false"], request_id=request.request_id)
    job = client.submit(request)
    client.wait(job)
    assert client.rerun(job, request_id="again") == client.rerun(job, request_id="again") != job


def test_a_whole_request_and_a_spec(client):
    spec = JobSpec(command=[b"false"], size=3, working_directory=b"/")
    job = client.submit(["true"], spec=spec, size=2, environment=PATH)
    assert (list(client.get(job).command), client.wait(job).size, spec.size) == (["true"], 2, 3)
    request = SubmitRequest(spec=spec, name="whole")
    request.environment.add(name=b"PATH", value=b"/usr/bin:/bin")
    assert client.wait(client.submit(request)).exit_code == 1
    assert request.request_id == ""  # the caller's message is as it was


def test_pages(launcherd):
    with client_of(launcherd(slots=1)) as client:
        blocker = run(client, "sleep", "1000", name="blocker")
        until(client, blocker, JobState.RUNNING)
        jobs = [run(client, "true", name=f"job-{number:02}") for number in range(25)]
        page = client.list_jobs(page_size=10, order="name", filter="job-")
        assert [job.name for job in page.jobs] == [f"job-{number:02}" for number in range(10)]
        assert page.total == 25 and page.next_page_token
        listed = [job.name for job in client.jobs(page_size=7, order="name", reverse=True, filter="job-")]
        assert listed == [f"job-{number:02}" for number in reversed(range(25))]
        assert [job.id for job in client.jobs(states=[JobState.RUNNING])] == [blocker]
        assert [job.id for job in client.jobs(filter="job-")] == jobs[::-1]
        client.kill(blocker, at_once=True)


def test_holds_signals_and_kills(client):
    held = run(client, "true", held=True)
    client.hold(held)
    assert client.get(held).held
    client.release(held)
    client.release(held)
    assert client.wait(held).exit_code == 0
    with pytest.raises(FailedPrecondition):
        client.hold(held)
    job = run(client, "sh", "-c", 'trap "echo got; exit 7" USR1; echo ready; while :; do sleep 0.05; done')
    with client.logs(job, follow=True) as chunks:
        assert next(chunks).data == b"ready\n"
        until(client, job, JobState.RUNNING)  # launcherd may hear of the output first
        client.signal(job, "USR1")
        assert b"".join(chunk.data for chunk in chunks).endswith(b"got\n")  # after what the shell says of its sleep
    assert client.wait(job).exit_code == 7
    endless = run(client, "sleep", "1000")
    until(client, endless, JobState.RUNNING)
    with pytest.raises(InvalidArgument, match="kill it instead"):
        client.signal(endless, signal.SIGKILL)
    client.kill(endless)
    ended = client.wait(endless)
    assert (JobState(ended.state), ended.exit_code) == (JobState.KILLED, 143)
    with pytest.raises(FailedPrecondition, match="has ended"):
        client.kill(endless)


def test_another_size(launcherd):
    with client_of(launcherd(slots=4)) as client:
        spec = JobSpec()
        spec.failure.on_failure, spec.failure.min_ranks, spec.failure.max_ranks = 4, 1, 3  # SHRINK
        job = run(client, "sleep", "1000", size=2, spec=spec)
        until(client, job, JobState.RUNNING)
        assert client.resize(job, 3).size == 3
        with pytest.raises(MusterError) as error:
            client.resize(job, 4)
        assert error.value.code == "OUT_OF_RANGE"
        client.kill(job, at_once=True)
        client.wait(job)


def test_dependencies_and_changes(client):
    first = run(client, "sleep", "1000", held=True)
    later = datetime.datetime.now() + datetime.timedelta(hours=1)
    second = run(client, "true", after=[f"{first}:any"], priority=1, deadline=later)
    assert [(each.job, each.condition) for each in client.get(second).after] == [(first, 2)]
    client.update(second, priority=9, no_deadline=True)
    assert client.get(second).priority == 9 and not client.get(second).HasField("deadline")
    with pytest.raises(FailedPrecondition):
        client.update(first, after=[second])  # a circle
    client.update(second, after=[])
    assert client.wait(second, timeout=60).exit_code == 0
    client.kill(first, at_once=True)
    with pytest.raises(FailedPrecondition):
        client.update(first, priority=2)
    with pytest.raises(NotFound):
        run(client, "true", after=["aaaaaaaa"])


def test_arrays(client):
    job = client.submit(["sh", "-c", "echo $MUSTER_ARRAY_INDEX; exit $((MUSTER_ARRAY_INDEX == 3))"], array="0-5%2", environment=PATH)
    ended = client.wait(job, timeout=60)
    assert (ended.array.succeeded, ended.array.failed, JobState(ended.state)) == (5, 1, JobState.FAILED)
    states = [(each.first, each.last, JobState(each.state).name) for each in client.elements(job, page_size=1)]
    assert states == [(0, 2, "SUCCEEDED"), (3, 3, "FAILED"), (4, 5, "SUCCEEDED")]
    assert client.get(f"{job}[3]").exit_code == 1 and output(client, f"{job}[4]") == b"4\n"
    with pytest.raises(FailedPrecondition):
        list(client.elements(run(client, "true")))


def test_where_the_ranks_of_a_job_are(client):
    job = run(client, sys.executable, "-c", "import time; print(flush=True); time.sleep(1000)", size=2)
    until(client, job, JobState.RUNNING)
    with client.logs(job, follow=True) as chunks:
        assert next(chunks).data == b"\n"
    assert {process.rank for process in client.stacks(job) if process.pid} == {0, 1}
    only, = client.stacks(job, ranks=[1], native=True)
    assert only.rank == 1 and only.threads and not only.problem
    report = client.hang(job)
    assert (report.size, report.answered) == (2, 2) and report.classes
    with pytest.raises(InvalidArgument, match="2"):
        client.stacks(job, ranks=[2])
    with pytest.raises(InvalidArgument) as error:
        client.stacks(job, ranks=["one"])
    assert error.value.field == "ranks"
    client.kill(job, at_once=True)
    client.wait(job)
    for call in (client.stacks, client.hang):
        with pytest.raises(FailedPrecondition):
            call(job)
        with pytest.raises(NotFound):
            call("aaaaaaaa")


def test_history(client):
    job = run(client, "sleep", "1000")
    until(client, job, JobState.RUNNING)
    while not client.history(job).job:  # launcherd adds a point every few seconds
        threading.Event().wait(0.2)
    history = client.history(job, hosts=["localhost"])
    assert [host.host for host in history.hosts] == ["localhost"] and history.job[0].time.seconds > 0
    assert not client.history(job, since=datetime.datetime.now() + datetime.timedelta(hours=1)).job
    assert [host.host for host in client.history().hosts] == ["localhost"]
    with pytest.raises(InvalidArgument) as error:
        client.history(hosts="localhost")
    assert error.value.field == "hosts"
    with pytest.raises(NotFound):
        client.history(hosts=["elsewhere"])


def test_cleanup(client):
    for dry_run in (True, False):
        report, = client.cleanup(dry_run=dry_run, job="aaaaaaaa")
        assert (report.host, report.unreachable, list(report.remains)) == ("localhost", "", [])
    with pytest.raises(NotFound):
        client.cleanup(hosts=["elsewhere"], dry_run=True)
    assert calls.may_repeat(calls.cleanup([], "", True)) and not calls.may_repeat(calls.cleanup([], "", False))


def test_hosts_and_the_launcher(client):
    host, = client.hosts()
    assert (host.name, host.slots, host.drained) == ("localhost", 4, False)
    drained = client.drain("localhost", reason="for repair")
    assert (drained.drained, drained.reason) == (True, "for repair")
    assert not client.resume("localhost").drained
    with pytest.raises(NotFound, match="elsewhere"):
        client.drain("elsewhere")
    about = client.capabilities()
    assert about.pid and "submit" in about.features


@pytest.mark.parametrize(("field", "fields"), [
    ("spec.size", {"size": 5}), ("spec.size", {"size": -1}), ("spec.hosts", {"hosts": ["elsewhere"]}),
    ("hosts", {"hosts": ["-oProxyCommand=x"]}), ("hosts", {"hosts": "n1"}), ("spec.umask", {"umask": 0o7777}),
    ("labels", {"labels": {str(number): "" for number in range(65)}}), ("request_id", {"request_id": "x" * 129}),
    ("size", {"size": "two"}), ("timeout", {"timeout": -1}), ("timeout", {"timeout": "1m"}), ("labels", {"labels": {"a": 1}}),
    ("environment", {"environment": {"A=B": "x"}}), ("environment", {"environment": {"A": 1}}), ("sise", {"sise": 2}),
    ("working_directory", {"working_directory": 7}), ("spec.working_directory", {"working_directory": "relative"}),
    ("deadline", {"deadline": "tomorrow"}), ("after", {"after": "k7"}), ("after", {"after": ["k7:maybe"]}),
    ("array", {"array": "1-"}), ("array", {"array": "0-3%0"}), ("notify", {"notify": 7})])
def test_a_refusal_names_the_field(client, field, fields):
    with pytest.raises(InvalidArgument) as error:
        client.submit(["true"], **fields)
    assert error.value.field == field and error.value.message.startswith(f"{field}: "), error.value
    assert not client.list_jobs(all=True).total


@pytest.mark.parametrize("command", ["true", b"true", 7, ["true", 7]])
def test_a_command_is_a_list_of_words(client, command):
    with pytest.raises(InvalidArgument) as error:
        client.submit(command)
    assert error.value.field == "command"


def test_a_value_of_the_environment_is_in_no_error(client):
    with pytest.raises(InvalidArgument) as error:
        client.submit(["true"], environment={"TOKEN": ["not-for-others"]})
    assert "not-for-others" not in str(error.value)


def test_no_such_job(client):
    for call in (client.get, client.kill, client.wait, client.hold, client.rerun, lambda job: client.signal(job, 10),
                 lambda job: client.resize(job, 2), lambda job: list(client.watch(job)), lambda job: list(client.logs(job))):
        with pytest.raises(NotFound):
            call("aaaaaaaa")
    with pytest.raises(InvalidArgument, match="tomorrow.*state, name, size"):
        client.list_jobs(order="tomorrow")
    with pytest.raises(InvalidArgument, match="is no signal"):
        client.signal("aaaaaaaa", "HELLO")


def test_waiting_has_a_limit(client):
    job = run(client, "sleep", "1000")
    with pytest.raises(DeadlineExceeded, match=f"{job} has not ended within 0.2 s"):
        client.wait(job, timeout=0.2)
    client.kill(job, at_once=True)
    client.wait(job)


def test_many_at_once(launcherd):
    """Each request has its own result, in their order, also if some of them are refused."""
    with client_of(launcherd(slots=1)) as client:
        blocker = run(client, "sleep", "1000")
        until(client, blocker, JobState.RUNNING)
        requests = [job_request(["true"], size=2 if number % 50 == 7 else 1, name=str(number), environment=PATH)
                    for number in range(200)]
        results = client.submit_many(requests, window=20)
        refused = [number for number, result in enumerate(results) if isinstance(result, InvalidArgument)]
        assert refused == [7, 57, 107, 157] and results[7].field == "spec.size"
        names = {job.id: job.name for job in client.jobs()}
        for number, result in enumerate(results):
            assert number in refused or names[result] == str(number)
        assert len(names) == 197  # with the blocker, and nothing twice
        client.kill(blocker, at_once=True)


def test_threads_share_a_client(client):
    """Two threads submit, follow and list at the same time."""
    failures = []

    def work(word):
        try:
            for number in range(10):
                job = run(client, "echo", f"{word}{number}")
                assert output(client, job, follow=True) == f"{word}{number}\n".encode()
                assert client.wait(job).exit_code == 0
                assert any(each.id == job for each in client.jobs(all=True))
        except BaseException as error:  # the test fails in its own thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(word,)) for word in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=100)
        assert not thread.is_alive()
    assert not failures, failures
    assert client.list_jobs(all=True).total == 20


def test_a_stream_is_ended_by_another_thread(client):
    job = run(client, "sleep", "1000")
    until(client, job, JobState.RUNNING)
    events, seen = client.watch(job), threading.Event()
    ended = []

    def read():
        for _ in events:
            seen.set()
        ended.append(True)

    reader = threading.Thread(target=read)
    reader.start()
    assert seen.wait(60)
    events.close()
    reader.join(timeout=60)
    assert ended == [True] and list(events) == []
    other = Client(client.launcher)
    waiter = threading.Thread(target=lambda: ended.append(failure_of(other.wait, job)))
    waiter.start()
    other.capabilities()
    other.close()
    waiter.join(timeout=60)
    assert isinstance(ended[1], Cancelled), ended
    assert isinstance(failure_of(other.get, job), Cancelled)
    client.kill(job, at_once=True)
    client.wait(job)


def failure_of(call, *arguments):
    try:
        call(*arguments)
    except MusterError as error:
        return error
    return None


def test_nobody_is_there(tmp_path, monkeypatch):
    place = tmp_path / "launcherd.sock"
    with Client(f"unix:{place}") as client, pytest.raises(Unavailable, match=f"no launcherd answers at unix:{place}.*start one"):
        client.get("aaaaaaaa")
    with Client(f"unix:{place}", connect_for=0.5) as client, pytest.raises(Unavailable, match="asked again for 0"):
        client.submit(["true"])
    with Client(f"unix:{place}") as client:
        results = client.submit_many([job_request(["true"])] * 2)
        assert [type(result) for result in results] == [Unavailable] * 2
        with pytest.raises(Unavailable):
            list(client.watch("aaaaaaaa"))
    with socket.socket(socket.AF_UNIX) as deaf:  # it listens, and speaks no gRPC
        deaf.bind(str(place))
        deaf.listen()
        with Client(f"unix:{place}", timeout=0.5) as client, pytest.raises(MusterError) as error:
            client.get("aaaaaaaa")
    assert error.value.code in ("DEADLINE_EXCEEDED", "UNAVAILABLE")
    monkeypatch.delenv("MUSTER_LAUNCHER", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("MUSTER_TMPDIR", str(tmp_path))
    with pytest.raises(Unavailable, match="no launcherd of yours runs on this host"):
        Client()


def test_a_launcher_that_comes_late(launcherd, tmp_path):
    """With connect_for the client waits for its first answer."""
    results = []
    with Client(f"unix:{tmp_path}/sockets/launcherd.sock", connect_for=60) as client:
        caller = threading.Thread(target=lambda: results.append(client.capabilities().pid))
        caller.start()
        daemon = launcherd()
        caller.join(timeout=60)
        assert results == [daemon.process.pid]


def test_the_launcher_is_found_as_the_command_finds_it(launcherd, tmp_path, monkeypatch):
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    daemon = launcherd("--listen", f"unix:{runtime}/muster/launcherd.sock", listen=False)
    daemon.socket = runtime / "muster/launcherd.sock"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.delenv("MUSTER_LAUNCHER", raising=False)
    with Client() as client:
        assert client.launcher == f"unix:{daemon.socket}" and client.capabilities().pid == daemon.process.pid
    monkeypatch.setenv("MUSTER_LAUNCHER", "nonsense")
    with pytest.raises(InvalidArgument, match="is not a launcher address"):
        Client()
    with Client(f"unix:{daemon.socket}") as client:
        assert client.hosts()


def test_a_launcher_of_another_user_is_refused():
    if os.geteuid() != 0:
        pytest.skip("a socket of another user needs root")
    folder = tempfile.mkdtemp(dir="/tmp")
    os.chmod(folder, 0o777)
    place = f"{folder}/launcherd.sock"
    listens = f"import socket, time; s = socket.socket(socket.AF_UNIX); s.bind({place!r}); s.listen(); print(flush=True); time.sleep(100)"
    with subprocess.Popen([sys.executable, "-c", listens], user=65534, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with Client(f"unix:{place}") as client, pytest.raises(PermissionDenied, match="belongs to another user"):
            client.submit(["true"], environment={"SECRET": "x"})
        other.kill()
    shutil.rmtree(folder)


def test_certificates(launcherd, tmp_path, monkeypatch):
    authority = Authority(tmp_path, "ca")
    server = authority.issue("server", "DNS:localhost,IP:127.0.0.1")
    daemon = launcherd("--listen", "127.0.0.1:0", "--tls-cert", server[0], "--tls-key", server[1], "--client-ca",
                       authority.file("pem"), "--i-know-jobs-run-as-root", waits=False)
    port = daemon.line_with("serving").split("127.0.0.1:")[1].split()[0]
    files = {role: TlsFiles(*map(str, authority.issue(role, f"URI:muster://role/{role}")), str(authority.file("pem")))
             for role in ("watch", "submit")}
    with Client(f"localhost:{port}", tls=files["submit"]) as client:
        assert client.wait(run(client, "true")).exit_code == 0
        with pytest.raises(PermissionDenied, match="role"):
            client.drain("localhost")
    for name, value in zip(("CERT", "KEY", "CA"), (files["watch"].certificate, files["watch"].key, files["watch"].authority)):
        monkeypatch.setenv(f"MUSTER_TLS_{name}", value)
    with Client(f"127.0.0.1:{port}") as client:
        assert client.list_jobs(all=True).total == 1
        with pytest.raises(PermissionDenied):
            run(client, "true")
    with Client(f"localhost:{port}", tls=TlsFiles(files["watch"].certificate)) as client:
        with pytest.raises(InvalidArgument, match="tls.key is not set"):
            client.hosts()
    os.chmod(files["submit"].key, 0o644)
    with Client(f"localhost:{port}", tls=files["submit"]) as client, pytest.raises(PermissionDenied, match="run chmod 600"):
        client.hosts()


def test_a_full_launcher_is_no_reason_to_ask_again(client):
    with pytest.raises(ResourceExhausted):
        client.submit(["x" * (5 << 20)])


def test_a_command_beside_a_rank(client):
    job = run(client, "sleep", "1000", size=2)
    until(client, job, JobState.RUNNING)
    content = os.urandom(1_000_000)
    result = client.exec(job, ["sh", "-c", "cat; echo $MUSTER_RANK >&2; exit 3"], rank=1, input=content, timeout=60)
    assert (result.exit_code, result.signal, result.stdout, result.stderr) == (3, 0, content, b"1\n")
    assert result.host == "localhost" and result.message == ""
    assert client.exec(job, ["true"], rank=0, input=content).exit_code == 0, "it reads nothing"
    assert client.exec(job, ["sh", "-c", "kill -9 $$"], rank=0).signal == 9
    missing = client.exec(job, ["no-such-program"], rank=0)
    assert missing.exit_code == 127 and "no-such-program" in missing.message
    with pytest.raises(InvalidArgument) as error:
        client.exec(job, ["true"])
    assert error.value.field == "rank"
    with pytest.raises(InvalidArgument):
        client.exec(job, "true", rank=0)
    with pytest.raises(NotFound):
        client.exec("zzzzzzzz", ["true"])
    with pytest.raises(DeadlineExceeded):
        client.exec(job, ["sleep", "1000"], rank=0, timeout=0.5)
    client.kill(job, at_once=True)
    client.wait(job, timeout=60)
    with pytest.raises(FailedPrecondition):
        client.exec(job, ["true"], rank=0)


def test_ctrl_c_ends_the_command(client, tmp_path):
    job = run(client, "sleep", "1000", working_directory=tmp_path.as_posix())
    until(client, job, JobState.RUNNING)

    def press():
        assert eventually((tmp_path / "up").exists, 60)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        client.exec(job, ["sh", "-c", "trap 'touch ended; exit' HUP TERM; touch up; while :; do sleep 0.1; done"])
    thread.join()
    assert eventually((tmp_path / "ended").exists, 60)
