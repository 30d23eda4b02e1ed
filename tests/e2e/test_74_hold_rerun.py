"""Jobs that are held, released and submitted once more; who submitted them; and why they failed."""

import json
import time

import pytest
from horovod_programs import python_rank
from launcherd_user import Launcherd

# Prints what the rerun must have again.
SHOWS = 'echo "$TOKEN in $PWD on $MUSTER_SIZE"'


@pytest.fixture
def launcherd(hvdrun, cluster, no_leftovers):
    daemon = Launcherd(hvdrun, cluster, "--http-write", "--http", "127.0.0.1:7481")
    yield daemon
    daemon.close()


def submit(launcherd, *args, token="s3cret"):
    return launcherd.submit("-x", f"TOKEN={token}", *args)


def line_of(launcherd, job, *options):
    """The job's line of muster jobs."""
    lines = [line for line in launcherd.asked("jobs", "-a", *options).splitlines() if line.startswith(job)]
    assert len(lines) == 1, lines
    return lines[0].split()


def stays_queued(launcherd, job):
    """A later job starts and ends before it."""
    later = launcherd.submit("-np", "1", "true")
    launcherd.asked("wait", later)
    held = launcherd.job(job)
    assert held["state"] == "JOB_STATE_QUEUED" and held["held"] and held["reason"] == "held by alice", held


def post(launcherd, path):
    """The answer to an action of the page, and its HTTP status."""
    command = ("curl -s -w '\\n%{http_code}' -X POST -H \"X-Muster-Token: $(cat /home/alice/launcherd-state/http-token)\" "
               f"http://127.0.0.1:7481{path}")
    result = launcherd.cluster.run("head", "alice", ["sh", "-c", command], check=True, timeout=30)
    body, status = result.stdout.rsplit("\n", 1)
    return json.loads(body), int(status)


def test_a_held_job_waits_through_a_kill_of_launcherd(launcherd):
    job = submit(launcherd, "--hold", "-np", "2", "--name", "night", "sh", "-c", SHOWS)
    stays_queued(launcherd, job)
    assert line_of(launcherd, job)[1] == "HELD"
    wide = " ".join(line_of(launcherd, job, "--wide"))
    assert " alice night " in wide and wide.endswith("(held by alice)"), wide
    status = launcherd.asked("status", job)
    assert "reason: held by alice\n" in status and "user: alice\n" in status and "directory: /home/alice\n" in status, status
    launcherd.die()
    launcherd.come_back()
    stays_queued(launcherd, job)
    released = json.loads(launcherd.asked("release", "--json", "night"))
    assert released["id"] == job and not released["held"], released
    ended = json.loads(launcherd.asked("wait", "--json", job))
    assert (ended["id"], ended["state"], ended["exit_code"]) == (job, "JOB_STATE_SUCCEEDED", 0), ended
    assert launcherd.asked("logs", "--rank", "0", job).endswith("s3cret in /home/alice on 2\n")
    assert not launcherd.job(job).get("held"), "a job that has ended is not held"
    refused = launcherd.muster("hold", job)
    assert refused.returncode == 2 and "has ended" in refused.stderr, refused
    assert launcherd.asked("release", job) == f"job {job} is released\n"


def test_a_waiting_job_can_be_held_and_a_running_one_cannot(launcherd):
    all_slots = launcherd.submit("-np", "8", "sleep", "1000")
    job = launcherd.submit("-np", "1", "true")
    assert launcherd.asked("hold", job) == f"job {job} is held\n"
    refused = launcherd.muster("hold", all_slots)
    assert refused.returncode == 2 and "no longer waits" in refused.stderr, refused
    killed = json.loads(launcherd.asked("kill", "--now", "--json", all_slots))
    assert (killed["id"], killed["state"]) == (all_slots, "JOB_STATE_KILLED"), killed
    stays_queued(launcherd, job)
    events = launcherd.asked("events", job)
    assert "QUEUED: held by alice" in events, events
    late = launcherd.submit("--hold", "--deadline", "1s", "-np", "1", "true")
    assert launcherd.muster("wait", late).returncode == 124
    killed = launcherd.muster("kill", job)
    assert killed.returncode == 0 and launcherd.job(job)["state"] == "JOB_STATE_KILLED", killed


def test_typos_and_the_page(launcherd):
    job = launcherd.submit("--hold", "-np", "1", "true")
    for verb in ("hold", "release", "rerun"):
        wrong = launcherd.muster(verb, *([] if verb == "rerun" else [job]), "zzzzzzzz")
        assert wrong.returncode == 2 and "zzzzzzzz" in wrong.stderr, wrong
    assert launcherd.job(job)["held"], "release does nothing if one of its jobs is unknown"
    assert post(launcherd, f"/api/jobs/{job}/release") == ({}, 200)
    launcherd.asked("wait", job)
    assert post(launcherd, f"/api/jobs/{job}/hold")[1] == 409
    assert post(launcherd, "/api/jobs/zzzzzzzz/hold")[1] == 404


def test_a_rerun_has_the_same_environment(launcherd):
    first = submit(launcherd, "-np", "2", "--wdir", "/tmp", "--name", "again", "--priority", "3", "--label", "a=b", "sh", "-c", SHOWS)
    launcherd.asked("wait", first)
    second = json.loads(launcherd.asked("rerun", "--json", "--request-id", "once", first))["job_id"]
    assert second != first
    assert launcherd.asked("rerun", "--request-id", "once", first).strip() == second, "one job however often"
    launcherd.asked("wait", second)
    assert launcherd.asked("logs", "--rank", "1", second).endswith("s3cret in /tmp on 2\n")
    kept = ("name", "priority", "labels", "command", "environment_names", "user", "working_directory", "size")
    before, after = launcherd.job(first), launcherd.job("again")  # the newest of that name, as both have ended
    assert after["id"] == second, after
    assert {key: before[key] for key in kept} == {key: after[key] for key in kept}
    running = submit(launcherd, "-np", "1", "--name", "again", "sh", "-c", f"{SHOWS}; sleep 1000")
    assert launcherd.job("again")["id"] == running, "the only one that has not ended"
    again = launcherd.asked("rerun", running).strip()
    both = launcherd.muster("kill", "again")
    assert both.returncode == 2 and running in both.stderr and again in both.stderr, both
    launcherd.watch("logs", "-f", again).out.wait_for("s3cret")
    launcherd.asked("kill", "--now", running, again)
    answer, status = post(launcherd, f"/api/jobs/{first}/rerun")
    assert status == 200, answer
    launcherd.asked("wait", answer["job_id"])
    assert "s3cret in /tmp" in launcherd.asked("logs", answer["job_id"])
    launcherd.die()
    launcherd.come_back()
    launcherd.wait_for_agents()
    lost = launcherd.muster("rerun", first)
    assert lost.returncode == 2, lost
    assert f"launcherd no longer has the environment of job {first}; submit it again" in lost.stderr, lost
    assert post(launcherd, f"/api/jobs/{first}/rerun")[1] == 409


def test_hints_are_there_after_a_restart(launcherd):
    job = launcherd.submit("-np", "1", "sh", "-c", "kill -9 $$")
    assert launcherd.muster("wait", job).returncode == 137
    launcherd.die()
    launcherd.come_back()
    launcherd.wait_for_agents()
    hints = launcherd.job(job)["hints"]
    assert hints[0].startswith("Muster did not send this signal") and "run dmesg on n" in hints[1], hints
    assert hints[1] in launcherd.asked("status", job)


def test_the_history_has_the_network_and_the_steps(launcherd):
    """The points are 10 s apart, and a rate needs two of them."""
    program = "import time, muster\nfor step in range(1000):\n    muster.heartbeat(step)\n    time.sleep(0.05)\n"
    job = launcherd.submit("-np", "2", "-H", "n1:2", *python_rank(program))  # a single rank is not compared
    end = time.monotonic() + 45
    point = {}
    while "steps_per_second" not in point and time.monotonic() < end:
        time.sleep(0.5)
        point = (history(launcherd, f"job={job}").get("job") or [{}])[-1]
    assert 10 < point["steps_per_second"] < 22, point
    hosts = history(launcherd, "host=n1")["hosts"]
    assert any("network_bytes_per_second" in each for each in hosts[0]["points"]), hosts
    launcherd.asked("kill", "--now", job)


def history(launcherd, query):
    command = ["curl", "-s", f"http://127.0.0.1:7481/api/history?{query}"]
    return json.loads(launcherd.cluster.run("head", "alice", command, check=True, timeout=30).stdout)
