"""Jobs of launcherd from their submission to their end, as a scheduler's client sees them."""
import json
import os
import signal
import subprocess

import grpc
import pytest
from conftest import BIN


def refused(call, *arguments, **keywords):
    with pytest.raises(grpc.RpcError) as error:
        call(*arguments, **keywords)
    return error.value.code(), error.value.details()


@pytest.mark.parametrize(("script", "exit_code", "state"),
                         [("exit 0", 0, "SUCCEEDED"), ("exit 3", 3, "FAILED"), ("kill -9 $$", 137, "FAILED")])
def test_exit_codes(api, script, exit_code, state):
    job = api.submit(["sh", "-c", script], size=2)
    ended = api.wait(job)
    assert ended.exit_code == exit_code
    assert api.state(job) == state
    assert [rank.host for rank in ended.ranks] == ["localhost", "localhost"]
    assert [(host.name, host.ranks) for host in ended.hosts] == [("localhost", 2)]
    assert ended.started.seconds and ended.ended.seconds and ended.submitted.seconds


def test_a_command_that_is_not_there(api):
    ended = api.wait(api.submit(["/nonexistent"]))
    assert ended.exit_code == 127
    assert ended.reason


def test_an_end_of_many_long_words(launcherd):
    """Every rank says in which PATH its program was not found: together more than the store takes in one piece."""
    api = launcherd(slots=60).client()
    path = ":".join(f"/nonexistent/{number:0100}" for number in range(1000))
    ended = api.wait(api.submit(["nonexistent"], size=60, on_exit="ON_EXIT_WAIT", environment={"PATH": path}))
    assert (ended.exit_code, api.state(ended.id)) == (127, "FAILED")
    assert all("not found in PATH" in rank.end.detail for rank in ended.ranks)


def test_watch_goes_on_where_it_was(api):
    job = api.submit(["true"], size=2)
    first = [event.SerializeToString() for event in api.watch(job)]
    for number in range(1, len(first) + 1):
        rest = [event.SerializeToString() for event in api.watch(job, from_sequence=number)]
        assert rest == first[number - 1:]
    assert not list(api.watch(job, from_sequence=10**15))


def test_kill(api):
    job = api.submit(["sleep", "1000"], size=2)
    api.until(job, "RUNNING")
    api.kill(job)
    ended = api.wait(job)
    assert (ended.exit_code, api.state(job)) == (143, "KILLED")
    code, text = refused(api.kill, job)
    assert code == grpc.StatusCode.FAILED_PRECONDITION
    assert "has ended" in text


def test_kill_at_once_asks_nobody(api):
    job = api.submit(["sh", "-c", "trap '' TERM; echo up; while :; do read x; done"], kill_grace={"seconds": 600})
    follow = api.api.Logs(api.stubs.launcher.LogsRequest(job=job, follow=True), timeout=api.PATIENCE)
    assert next(follow).data == b"up\n"
    api.kill(job, at_once=True)
    assert api.wait(job).exit_code == 143


def test_who_is_killed_again_and_at_once_keeps_its_slots_until_its_ranks_have_ended(api):
    job = api.submit(["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"], kill_grace={"seconds": 600},
                     size=2)
    follow = api.api.Logs(api.stubs.launcher.LogsRequest(job=job, follow=True), timeout=api.PATIENCE)
    seen = b""
    while seen.count(b"up\n") < 2:
        seen += next(follow).data
    api.kill(job)
    api.kill(job, at_once=True)
    ended = api.wait(job)
    assert [rank.end.signal for rank in ended.ranks] == [signal.SIGKILL] * 2, ended


def test_a_prefix_names_a_job(api):
    job = api.submit(["true"])
    api.wait(job)
    assert api.get(job[:4]).id == job


def test_ranks_get_the_given_variables(api):
    job = api.submit(["sh", "-c", "env"], environment={"GIVEN": "s3cret-value", "MUSTER_TMPDIR": "/mine"})
    assert api.wait(job).exit_code == 0
    variables = api.output(job).decode().splitlines()
    assert {"GIVEN=s3cret-value", "MUSTER_TMPDIR=/mine"} <= set(variables)
    assert list(api.get(job).environment_names) == ["PATH", "GIVEN", "MUSTER_TMPDIR"]


def test_values_of_variables_are_gone_with_the_job(launcherd):
    daemon = launcherd()
    api = daemon.client()
    job = api.submit(["true"], environment={"TOKEN": "s3cret-value"})
    api.wait(job)
    daemon.end()
    for path in daemon.state.rglob("*"):
        assert not path.is_file() or b"s3cret-value" not in path.read_bytes(), path


def test_logs_follow_until_the_end(api, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    job = api.submit(["sh", "-c", f"echo one; cat {gate}; echo two"])
    chunks = api.api.Logs(api.stubs.launcher.LogsRequest(job=job, follow=True), timeout=api.PATIENCE)
    first = next(chunks)
    assert first.data == b"one\n"
    gate.write_text("between\n")
    assert b"".join(chunk.data for chunk in chunks) == b"between\ntwo\n"
    assert api.output(job, from_position=first.next_position) == b"between\ntwo\n"


def test_signals_reach_the_ranks(api):
    job = api.submit(["sh", "-c", "trap 'exit 7' USR1; echo up; while :; do sleep 0.05; done"])
    follow = api.api.Logs(api.stubs.launcher.LogsRequest(job=job, follow=True), timeout=api.PATIENCE)
    assert next(follow).data == b"up\n"
    api.until(job, "RUNNING")
    api.api.Signal(api.stubs.launcher.SignalRequest(job=job, signal=signal.SIGUSR1), timeout=api.PATIENCE)
    assert api.wait(job).exit_code == 7


def test_stacks_of_a_running_job(api):
    job = api.submit(["sleep", "1000"])
    api.until(job, "RUNNING")
    processes = list(api.api.Stacks(api.stubs.launcher.StacksRequest(job=job), timeout=api.PATIENCE))
    assert [process.rank for process in processes] == [0]
    api.kill(job)


def test_timeout_and_deadline(api):
    late = api.submit(["sleep", "1000"], timeout={"nanos": 200_000_000})
    assert (api.wait(late).exit_code, api.state(late)) == (124, "FAILED")
    now = api.get(late).ended
    dead = api.submit(["sleep", "1000"], deadline={"seconds": now.seconds + 2})
    assert (api.wait(dead).exit_code, api.state(dead)) == (124, "KILLED")
    assert "deadline" in api.get(dead).reason


def test_a_failed_rank_starts_the_job_again(api):
    job = api.submit(["sh", "-c", "exit $((5 - 5 * MUSTER_ATTEMPT))"], max_restarts=2)
    ended = api.wait(job)
    assert (ended.exit_code, ended.attempt) == (0, 1)


def test_ranks_run_where_they_were_placed(api, tmp_path):
    cpu = min(os.sched_getaffinity(0))
    hosts = [{"name": "localhost", "ranks": [{"rank": 0, "cpus": [cpu]}, {"rank": 1}]}]
    job = api.submit(["sh", "-c", 'echo "$MUSTER_RANK $(taskset -cp $$ | sed "s/.*: //")"; until test -e $0; do sleep 0.05; done',
                      str(tmp_path / "seen")], hosts=hosts)
    api.until(job, "RUNNING")
    assert [rank.binding.cpus for rank in api.get(job).ranks][0] == str(cpu)
    (tmp_path / "seen").touch()
    assert api.wait(job).exit_code == 0
    assert f"0 {cpu}".encode() in api.output(job).splitlines()


def test_a_rank_is_not_placed_on_a_gpu_that_is_not_there(api):
    hosts = [{"name": "localhost", "ranks": [{"rank": 0, "gpus": ["GPU-1234"]}]}]
    job = api.submit(["true"], hosts=hosts)
    ended = api.wait(job)
    assert ended.exit_code == 2 and "rank 0 is placed on GPU GPU-1234, which the host does not have" in ended.reason, ended


def test_lists_come_in_pages(api):
    jobs = [api.submit(["true"], request_name=f"job {number}") for number in range(5)]
    for job in jobs:
        api.wait(job)
    request = api.stubs.launcher.ListJobsRequest(all=True, page_size=2)
    seen = []
    while True:
        page = api.api.ListJobs(request, timeout=api.PATIENCE)
        seen += [job.id for job in page.jobs]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert seen == jobs[::-1]
    assert not api.api.ListJobs(api.stubs.launcher.ListJobsRequest(), timeout=api.PATIENCE).jobs


def test_jobs_with_long_commands_are_listed(launcherd, tmp_path):
    """By the program, which asks for long pages, and by clients that take no longer messages than gRPC's default."""
    daemon = launcherd()
    api = daemon.client()
    api.api.DrainHost(api.stubs.launcher.DrainHostRequest(host="localhost"), timeout=api.PATIENCE)
    jobs = [api.submit(["true", *["x" * 100_000] * 10]) for _ in range(20)]
    environment = {**os.environ, "MUSTER_TMPDIR": str(tmp_path)}  # without jobs of other launchers
    environment.pop("XDG_RUNTIME_DIR", None)
    said = subprocess.run([BIN / "muster", "jobs", "--json", "--launcher", f"unix:{daemon.socket}"], timeout=60,
                          capture_output=True, text=True, check=True, env=environment)
    assert [json.loads(line)["id"] for line in said.stdout.splitlines()] == jobs[::-1]
    page = api.api.ListJobs(api.stubs.launcher.ListJobsRequest(page_size=1000), timeout=api.PATIENCE)
    assert page.jobs and page.next_page_token
    for job in jobs:
        api.kill(job)


def test_health_and_reflection(api):
    health = api.stubs.health_service.HealthStub(api.channel)
    for service in ("", "muster.v1.Launcher"):
        answer = health.Check(api.stubs.health.HealthCheckRequest(service=service), timeout=api.PATIENCE)
        assert answer.status == api.stubs.health.HealthCheckResponse.SERVING
    assert refused(health.Check, api.stubs.health.HealthCheckRequest(service="x"), timeout=api.PATIENCE)[0] == \
        grpc.StatusCode.NOT_FOUND
    # ServerReflectionRequest { list_services: "" }; the library's own messages are not packaged for Python.
    reflect = api.channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
    assert b"muster.v1.Launcher" in next(reflect(iter([b"\x3a\x00"]), timeout=api.PATIENCE))


def test_capabilities(api):
    answer = api.api.GetCapabilities(api.stubs.launcher.GetCapabilitiesRequest(), timeout=api.PATIENCE)
    assert answer.version and answer.build_id and answer.pid and answer.state_directory
    assert {"submit", "watch", "logs"} <= set(answer.features)


def test_cleanup_looks_at_the_hosts(api):
    reports = list(api.api.Cleanup(api.stubs.launcher.CleanupRequest(dry_run=True), timeout=api.PATIENCE))
    assert [report.host for report in reports] == ["localhost"]
    assert not reports[0].unreachable
