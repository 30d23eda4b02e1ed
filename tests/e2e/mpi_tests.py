"""What holds of a program of any MPI, whichever protocol serves its ranks; test_38 and test_39 run these with theirs, by a
fixture `program`: tests/mpi/mpi_rank.c as that MPI's compiler makes it."""

import re
import time

import pytest
from cluster import testing
from console import Watched
from launcherd_user import Launcherd
from mpi_programs import files, segments

FOUR = ["-np", "8", "-H", "n1:2,n2:2,n3:2,n4:2"]
TWO = ["-np", "4", "-H", "n1:2,n2:2"]
# The promise is 2 s; this machine may be busy.
SOON = 6.0


@pytest.fixture(autouse=True)
def nothing_left(cluster, no_leftovers):
    """No file in /tmp and /dev/shm, no segment, whatever the test did."""
    before = files(cluster), segments(cluster)
    yield

    def left():
        return [each for each in files(cluster) if each not in before[0]], \
               [each for each in segments(cluster) if each not in before[1]]

    testing.eventually(lambda: left() == ([], []), 5.0)
    assert left() == ([], [])


@pytest.fixture
def start(hvdrun, cluster):
    def call(command, *options, hosts=TWO):
        return Watched(hvdrun, cluster, [*hosts, *options, *command])
    return call


@pytest.fixture
def launcherd(hvdrun, cluster, no_leftovers):
    daemon = Launcherd(hvdrun, cluster)
    yield daemon
    daemon.close()


def pids(job, ranks):
    return {rank: int(job.out.wait_for(rf"\[{rank}\]<stdout>:pid (\d+)")[-1].group(1)) for rank in range(ranks)}


def worlds(done):
    return re.findall(r"ok (ranks=\d+ hosts=\d+ local=\d+)", done.stdout)


@pytest.mark.parametrize("hosts, expected", [
    (["-np", "4", "-H", "n1:4"], {"ranks=4 hosts=1 local=4"}),
    (FOUR, {"ranks=8 hosts=4 local=2"}),
    (["-np", "4", "-H", "n1:1,n2:1,n3:1,n4:1"], {"ranks=4 hosts=4 local=1"}),
    (["-np", "6", "-H", "n1:1,n2:3,n3:2"], {f"ranks=6 hosts=3 local={local}" for local in (1, 2, 3)}),
    ([*FOUR, "--map-by", "node"], {"ranks=8 hosts=4 local=2"}),
])
@pytest.mark.parametrize("runtime", ["auto", "mpi"])
def test_all_ranks_are_one_world(hvdrun, program, hosts, expected, runtime):
    done = hvdrun([*hosts, "--runtime", runtime, program])
    assert done.rc == 0, done
    assert len(worlds(done)) == int(hosts[1]) and set(worlds(done)) == expected, done


def test_the_abort_code_is_the_jobs(hvdrun, program):
    done = hvdrun([*FOUR, program, "abort", "13", "5"])
    assert done.rc == 13, done
    assert re.search(r"rank 5 on n3 \(pid .*\): called MPI_Abort\(13\)", done.stderr), done
    assert done.elapsed < 30, done


def test_an_abort_with_256_is_a_failure_all_the_same(hvdrun, program):
    done = hvdrun([*TWO, program, "abort", "256", "0"])
    assert done.rc == 1 and "called MPI_Abort(256)" in done.stderr, done


def test_an_abort_ends_the_job_although_its_wrapper_goes_on(hvdrun, program):
    done = hvdrun([*TWO, "sh", "-c", '"$@"; sleep 600', "sh", program, "abort", "13", "1"])
    assert done.rc == 13, done


def test_a_killed_rank_ends_the_job(start, cluster, program, record_property):
    job = start([program, "wait"], hosts=FOUR)
    victim = pids(job, 8)[5]
    killed_at = time.monotonic()
    cluster.run("n3", "alice", ["kill", "-9", str(victim)], check=True)
    done = job.end()
    took = time.monotonic() - killed_at
    print(f"8 ranks on 4 hosts: over {took:.2f} s after a kill -9")
    record_property("seconds_to_the_end", round(took, 2))
    assert done.rc == 137 and "rank 5 on n3" in done.stderr, done
    assert took < SOON


def test_zero_without_finalize_is_a_failure(hvdrun, program):
    done = hvdrun([*TWO, program, "exit", "0", "2"])
    assert done.rc == 1 and re.search(r"rank 2 on n2 .*: exit code 0 without MPI_Finalize", done.stderr), done


def test_other_codes_without_finalize_are_kept(hvdrun, program):
    done = hvdrun([*TWO, program, "exit", "7", "2"])
    assert done.rc == 7 and re.search(r"rank 2 on n2 .*: exit code 7\n", done.stderr), done


def test_two_jobs_at_once_on_the_same_hosts(start, hvdrun, program, cluster):
    waiting = start([program, "wait"])
    victim = pids(waiting, 4)[0]
    for _ in range(2):
        done = hvdrun([*FOUR, program])
        assert done.rc == 0 and worlds(done) == ["ranks=8 hosts=4 local=2"] * 8, done
    cluster.run("n1", "alice", ["kill", "-9", str(victim)], check=True)
    assert waiting.end().rc == 137


def test_each_program_has_its_own_appnum(hvdrun, program):
    done = hvdrun(["-np", "1", "-H", "n1:2,n2:2", program, "appnum", ":", "-np", "2", program, "appnum",
                   ":", "-np", "1", program, "appnum"])
    assert done.rc == 0, done
    said = re.findall(r"\[(\d)\]<stdout>:appnum (-?\d+)", done.stdout)
    assert sorted(said) == [("0", "0"), ("1", "1"), ("2", "1"), ("3", "2")], done


def test_a_rank_on_a_terminal(hvdrun, program):
    done = hvdrun([*TWO, "--pty", program])
    assert done.rc == 0 and worlds(done) == ["ranks=4 hosts=2 local=2"] * 4, done


def test_under_launcherd(launcherd, program):
    job = launcherd.submit("-np", "4", "-H", "n1:2,n2:2", program)
    assert launcherd.asked("wait", job) == ""
    assert re.findall(r"ok (.*)", launcherd.asked("logs", job)) == ["ranks=4 hosts=2 local=2"] * 4
    done = launcherd.run("-np", "4", "-H", "n3:2,n4:2", program).end()
    assert done.rc == 0 and worlds(done) == ["ranks=4 hosts=2 local=2"] * 4, done


def test_an_end_under_launcherd_is_told_as_without(launcherd, program):
    job = launcherd.submit("-np", "4", "-H", "n1:2,n2:2", program, "abort", "13", "2")
    assert launcherd.muster("wait", job).returncode == 13
    assert "called MPI_Abort(13)" in launcherd.muster("attach", job).stderr


def test_a_killed_rank_and_a_second_attempt(launcherd, cluster, program):
    """Both attempts are whole worlds, with nothing of the first one left in the second."""
    job = launcherd.submit("-np", "4", "-H", "n1:2,n2:2", "--max-restarts", "1", "sh", "-c",
                           '[ $MUSTER_ATTEMPT = 1 ] || exec "$0" wait; exec "$0"', program)
    follower = launcherd.watch("logs", "-f", job)
    victim = pids(follower, 4)[3]
    cluster.run("n2", "alice", ["kill", "-9", str(victim)], check=True)
    done = follower.end()
    assert launcherd.muster("wait", job).returncode == 0
    assert worlds(done) == ["ranks=4 hosts=2 local=2"] * 4, done
    assert launcherd.job(job)["attempt"] == 1
