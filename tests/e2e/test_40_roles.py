"""Several programs as one job: on the command line, in a job file, under launcherd."""

import json
import re

import pytest
from launcherd_user import Launcherd

PYTHON = "/usr/bin/python3"
SAY = ("import os,socket,sys;e=os.environ;"
       "print(sys.argv[1],socket.gethostname(),os.getcwd(),e.get('COLOUR'),"
       "*[e[n] for n in ('MUSTER_RANK','MUSTER_SIZE','ROLE_NAME','ROLE_RANK','ROLE_WORLD_SIZE')])")


def lines(result):
    """What each rank has printed, by rank."""
    found = re.findall(r"^\[(\d+)\]<stdout>:(.*)$", result.stdout, re.M)
    return [text for _, text in sorted((int(rank), text) for rank, text in found)]


def test_two_programs_are_one_job(hvdrun, no_leftovers):
    result = hvdrun(["-x", "COLOUR=blue", "-np", "1", "-H", "n1", PYTHON, "-c", SAY, "a", ":", "-np", "3", "-H", "n2:2,n3",
                     "--wdir", "/tmp", "-x", "COLOUR=red", PYTHON, "-c", SAY, "b"])
    assert result.rc == 0, result
    assert lines(result) == ["a n1 /home/alice blue 0 4 python3 0 1", "b n2 /tmp red 1 4 python3-2 0 3",
                             "b n2 /tmp red 2 4 python3-2 1 3", "b n3 /tmp red 3 4 python3-2 2 3"]


def test_the_hosts_of_all_programs(hvdrun, no_leftovers):
    result = hvdrun(["-np", "1", "-H", "n1:2,n2:2", "sh", "-c", "echo $MUSTER_HOSTNAME a", ":", "-np", "3", "sh", "-c",
                     "echo $MUSTER_HOSTNAME b"])
    assert result.rc == 0, result
    assert lines(result) == ["n1 a", "n1 b", "n2 b", "n2 b"]


def test_a_program_that_fails_ends_the_others(hvdrun, no_leftovers):
    result = hvdrun(["-np", "1", "-H", "n1", "sh", "-c", "exit 7", ":", "-np", "2", "-H", "n2,n3", "sleep", "1000"])
    assert result.rc == 7, result
    assert "exit code 7 is that of rank 0 on n1" in result.stderr
    assert result.elapsed < 30


def test_a_program_that_is_not_there(hvdrun, no_leftovers):
    result = hvdrun(["-np", "1", "-H", "n1", "true", ":", "-np", "1", "-H", "n2", "./nothing"])
    assert result.rc == 127, result
    assert "rank 1 on n2" in result.stderr and "./nothing" in result.stderr


@pytest.fixture
def job_file(cluster):
    def write(text):
        cluster.run("head", "alice", ["sh", "-c", "cat > job.yaml"], input=text, check=True)
        return "job.yaml"
    yield write
    cluster.run("head", "alice", ["rm", "-f", "job.yaml"], check=True)


JOB = f"""
roles:
  - name: head
    command: [{PYTHON}, -c, "{SAY}", h]
    env: {{COLOUR: grey}}
    hosts: n2
  - name: worker
    np: 3
    command: [{PYTHON}, -c, "{SAY}", w]
    wdir: /
muster:
  hosts: "n1:2,n2:2"
"""


def test_roles_of_a_job_file(hvdrun, job_file, no_leftovers):
    result = hvdrun(["--config-file", job_file(JOB)])
    assert result.rc == 0, result
    assert lines(result) == ["h n2 /home/alice grey 0 4 head 0 1", "w n1 / None 1 4 worker 0 3",
                             "w n1 / None 2 4 worker 1 3", "w n2 / None 3 4 worker 2 3"]
    dry = hvdrun(["--config-file", "job.yaml", "--dry-run"])
    assert dry.rc == 0 and re.search(r"0  n2 .*head", dry.stdout), dry


SERVICE = """
roles:
  - name: server
    command: [sh, -c, "trap 'echo told; exit 0' TERM; while :; do sleep 0.1; done"]
    service: true
  - name: worker
    np: 2
    command: [sh, -c, "{worker}"]
muster:
  hosts: "n1:1,n2:2"
"""


def test_a_service_has_had_its_time_when_the_others_have_ended(hvdrun, job_file, no_leftovers):
    result = hvdrun(["--config-file", job_file(SERVICE.format(worker="exit 0"))])
    assert result.rc == 0, result
    assert "[0]<stdout>:told" in result.stdout, result


def test_a_service_ends_with_a_worker_that_fails(hvdrun, job_file, no_leftovers):
    result = hvdrun(["--config-file", job_file(SERVICE.format(worker="exit $((3 * MUSTER_RANK))"))])
    assert result.rc in (3, 6), result


def test_launcherd_runs_roles(hvdrun, cluster, job_file, no_leftovers):
    launcherd = Launcherd(hvdrun, cluster)
    try:
        job = launcherd.submit("--config-file", job_file(JOB))
        assert launcherd.asked("wait", job) == ""
        said = launcherd.asked("logs", job)
        assert "h n2 /home/alice grey 0 4 head 0 1" in said and "/ None 3 4 worker 2 3" in said, said
        state = launcherd.job(job)
        assert state["roles"] == [{"name": "head", "first": 0, "count": 1}, {"name": "worker", "first": 1, "count": 3}]
        assert ":" in state["command"]
        assert "grey" not in json.dumps(state)
        assert re.search(r"3  worker ", launcherd.asked("status", job))
        second = launcherd.run("-np", "1", "sh", "-c", "echo a $ROLE_NAME", ":", "-np", "2", "sh", "-c",
                               "echo b; exit 4")
        ended = second.end()
        assert ended.rc == 4, ended
    finally:
        launcherd.close()


def test_long_words_of_many_ranks(hvdrun, no_leftovers):
    """Together more than gRPC takes in one message by itself, 4 MiB."""
    result = hvdrun(["-np", "1", "-H", "n1:65", "true", ":", "-np", "64", "true", "x" * 80_000])
    assert result.rc == 0, result
