"""launcherd on head: jobs that outlive their terminal, asked for and followed from the command line."""

import json
import re
import signal

import pytest
from conftest import BIN_DIR
from console import Watched, last_line
from launcherd_user import HOSTS, MUSTER, STATE, Launcherd

WAITS = "echo up $MUSTER_RANK; exec sleep 1000"


@pytest.fixture
def launcherd(hvdrun, cluster, no_leftovers):
    daemon = Launcherd(hvdrun, cluster)
    yield daemon
    daemon.close()


def test_submit_wait_and_read(launcherd):
    job = launcherd.submit("-np", "8", "--name", "night", "--label", "a=b", "sh", "-c",
                           "echo rank $MUSTER_RANK of $MUSTER_SIZE on $MUSTER_HOSTNAME; echo trouble >&2")
    assert launcherd.asked("wait", job) == ""
    result = launcherd.muster("logs", job)
    assert sorted(result.stdout.splitlines()) == [
        f"[{rank}]<stdout>:rank {rank} of 8 on n{rank // 2 + 1}" for rank in range(8)]
    assert sorted(result.stderr.splitlines()) == [f"[{rank}]<stderr>:trouble" for rank in range(8)]
    assert launcherd.asked("logs", "--rank", "3", job) == "[3]<stdout>:rank 3 of 8 on n2\n"
    ended = launcherd.job(job[:5])
    assert (ended["state"], ended["exit_code"], ended["name"]) == ("JOB_STATE_SUCCEEDED", 0, "night")
    assert ended["labels"] == [{"name": "a", "value": "b"}]
    assert launcherd.asked("jobs") == ""
    assert job in launcherd.asked("jobs", "--all")
    assert "ended with exit code 0" in launcherd.asked("events", job)


def test_the_terminal_may_go(launcherd, cluster):
    """The job is not a child of what has submitted it, and its environment was taken there."""
    job = launcherd.submit("-np", "1", "-H", "n2", "sh", "-c", "echo $COLOUR in $PWD; exec sleep 1000",
                           env={"COLOUR": "blue"}, cwd="/tmp")
    follower = launcherd.watch("logs", "-f", job)
    follower.out.wait_for(re.escape("[0]<stdout>:blue in /tmp"))
    assert launcherd.asked("kill", job) == f"job {job} ended with exit code 143\n"
    assert follower.end().rc == 0
    assert launcherd.muster("wait", job).returncode == 143
    assert launcherd.job(job)["state"] == "JOB_STATE_KILLED"
    assert "blue" not in launcherd.asked("status", "--json", job) + launcherd.asked("events", "--json", job)


def test_the_exit_code_is_that_of_the_rank(launcherd):
    job = launcherd.submit("-np", "4", "sh", "-c", "[ $MUSTER_RANK = 2 ] && exit 7; exec sleep 1000")
    assert launcherd.muster("wait", job).returncode == 7
    attached = launcherd.muster("attach", job)
    assert attached.returncode == 7, attached
    assert "rank 2 on n2" in attached.stderr and "exit code 7 is that of rank 2 on n2" in attached.stderr, attached


def test_a_job_waits_with_a_reason(launcherd):
    first = launcherd.submit("-np", "8", "sh", "-c", WAITS)
    second = launcherd.submit("-np", "2", "sh", "-c", "echo done")
    waiting = launcherd.job(second)
    assert waiting["state"] == "JOB_STATE_QUEUED" and "needs 2 slots, 0 are free" in waiting["reason"], waiting
    assert "reason: needs 2 slots" in launcherd.asked("status", second)
    events = launcherd.watch("events", "-f", second)
    events.out.wait_for("QUEUED")
    launcherd.asked("kill", first)
    assert launcherd.asked("wait", second) == ""
    assert "ended with exit code 0" in events.end().stdout


def test_a_job_that_could_never_run_is_refused(launcherd):
    result = launcherd.muster("submit", "-np", "9", "true")
    assert result.returncode == 2 and "9 slots" in result.stderr, result
    result = launcherd.muster("submit", "-H", "n9", "true")
    assert result.returncode == 2 and "n9" in result.stderr, result
    assert launcherd.asked("jobs", "--all") == ""


def test_a_refusal_names_options(launcherd):
    """Not the fields of the API."""
    result = launcherd.muster("submit", "-np", "9", "true")
    assert result.stderr.startswith("muster submit: -np: the job needs 9 slots"), result
    assert "--oversubscribe" in result.stderr and "spec." not in result.stderr, result
    result = launcherd.hvdrun(["--launcher", "auto", "-np", "9", "true"])
    assert result.rc == 2 and result.stderr.startswith("hvdrun: -np: the job needs 9 slots"), result


def test_a_name_is_a_job(launcherd):
    long_ago = launcherd.submit("--name", "night", "true")
    launcherd.asked("wait", long_ago)
    assert launcherd.job("night")["id"] == long_ago
    job = launcherd.submit("--name", "night", "-np", "2", "sh", "-c", WAITS)
    launcherd.watch("logs", "-f", "night").out.wait_for("up", 2)
    assert launcherd.job("night")["id"] == job  # the one that has not ended
    assert re.search(rf"{job} .* night +sh -c", launcherd.asked("jobs")), launcherd.asked("jobs")
    assert " night " in launcherd.asked("top", "--once")
    assert launcherd.asked("kill", "night") == f"job {job} ended with exit code 143\n"
    assert launcherd.job("night")["id"] == job, "the newest, as all have ended"
    assert launcherd.asked("status", job).count("  ended  ") == 1  # its host waits for nothing any more


def test_without_a_word_the_newest_job_is_read(launcherd):
    assert launcherd.muster("logs").returncode == 2  # there is none
    launcherd.asked("wait", launcherd.submit("echo", "before"))
    job = launcherd.submit("echo", "hello")
    launcherd.asked("wait", job)
    for verb, expected in (("logs", "hello\n"), ("status", f"job {job}"), ("events", "ended with exit code 0")):
        result = launcherd.muster(verb)
        assert result.returncode == 0 and expected in result.stdout, (verb, result)
        assert result.stderr == f"muster {verb}: no job runs or waits: this is {job}, the last one that was submitted\n", result
    for verb in ("wait", "attach"):
        result = launcherd.muster(verb)
        assert result.returncode == 2 and "no job of yours runs or waits" in result.stderr, (verb, result)


def test_labels_of_logs(launcherd):
    job = launcherd.submit("-np", "2", "sh", "-c", "echo out $MUSTER_RANK")
    launcherd.asked("wait", job)
    assert sorted(launcherd.asked("logs", "--no-label", job).splitlines()) == ["out 0", "out 1"]
    assert sorted(launcherd.asked("logs", "--label-format", "{rank}/{stream}: ", job).splitlines()) == [
        "0/stdout: out 0", "1/stdout: out 1"]
    assert "out 1\n" in launcherd.asked("attach", "--no-label", job)
    result = launcherd.muster("logs", "--label-format", "{host}", job)
    assert result.returncode == 2 and "{rank}, {stream} and {time}" in result.stderr, result


def test_a_directory_that_others_may_enter_is_not_to_be_removed(hvdrun, cluster):
    cluster.run("head", "alice", ["mkdir", "-m", "755", "/home/alice/open"], check=True)
    try:
        result = hvdrun([], argv=[str(BIN_DIR / "launcherd"), "--listen", "unix:/home/alice/open/x.sock", "--state",
                                  "/home/alice/open-state"])
        assert result.rc == 125 and "chmod 700" in result.stderr and "remove" not in result.stderr, result
    finally:
        cluster.run("head", "alice", ["rm", "-rf", "/home/alice/open", "/home/alice/open-state"], check=True)


def test_a_submission_that_is_tried_again_is_one_job(launcherd):
    first = launcherd.submit("--request-id", "nightly", "true")
    assert launcherd.submit("--request-id", "nightly", "true") == first
    other = launcherd.muster("submit", "--request-id", "nightly", "false")
    assert other.returncode == 2 and f"already used for job {first}" in other.stderr, other
    assert len(launcherd.asked("jobs", "--all", "--json").splitlines()) == 1
    launcherd.asked("wait", first)  # jobs outlive launcherd


def test_a_drained_host_gets_no_job(launcherd):
    assert "drained" in launcherd.asked("hosts", "drain", "n1", "--reason", "new memory")
    assert launcherd.host("n1")["drained"] and launcherd.host("n1")["reason"] == "new memory"
    job = launcherd.submit("-np", "2", "sh", "-c", "echo $MUSTER_HOSTNAME")
    launcherd.asked("wait", job)
    assert "n1" not in launcherd.asked("logs", job)
    launcherd.asked("hosts", "resume", "n1")
    assert not launcherd.host("n1")["drained"]
    assert launcherd.muster("hosts", "drain", "n1", "n9").returncode == 2
    assert not launcherd.host("n1")["drained"], "no host is changed if one is misspelt"
    assert launcherd.muster("hosts", "drane", "n1").returncode == 2


def test_hvdrun_through_launcherd_looks_as_without(launcherd, hvdrun):
    program = ["-np", "4", "-H", "n1:2,n2:2", "sh", "-c",
               "echo out $MUSTER_RANK; [ $MUSTER_RANK = 3 ] && { echo oh >&2; exit 5; }; exec sleep 1000"]
    without = hvdrun(program)
    through = launcherd.run(*program).end()
    assert (without.rc, through.rc) == (5, 5), through

    def shape(result):
        lines = re.sub(r"\d+(\.\d+)? s\b|pid \d+|, \d+ in its namespace", "#", result.stderr)
        # Which ranks had started when the job was stopped is chance.
        return sorted({line for line in lines.splitlines() if not line.startswith("hvdrun: then ")})

    assert shape(through) == shape(without)
    assert set(through.stdout.splitlines()) <= {f"[{rank}]<stdout>:out {rank}" for rank in range(4)}


def test_ctrl_c_ends_the_job_of_hvdrun(launcherd):
    run = launcherd.run("-np", "4", "sh", "-c", WAITS, terminal=True)
    run.out.wait_for("up", 4)
    run.type("\x03")
    result = run.end()
    assert result.rc == 130 and last_line(result).endswith("stopped by Ctrl-C (SIGINT)"), result
    assert launcherd.asked("jobs") == ""


def test_ctrl_c_leaves_an_attached_job_alone(launcherd):
    job = launcherd.submit("-np", "2", "sh", "-c", WAITS)
    attached = launcherd.watch("attach", "--fold", "off", job, terminal=True)
    attached.out.wait_for("up", 2)
    attached.type("\x03")
    result = attached.end()
    assert result.rc == 130 and f"job {job} goes on" in result.stderr, result
    assert launcherd.job(job)["state"] == "JOB_STATE_RUNNING"
    ended = launcherd.watch("attach", "--kill-on-interrupt", job)
    ended.out.wait_for("up", 2)
    ended.signal(signal.SIGINT)
    assert ended.end().rc == 130
    assert launcherd.job(job)["state"] == "JOB_STATE_KILLED"


def test_the_end_of_a_log(launcherd):
    job = launcherd.submit("-np", "1", "sh", "-c", "seq 1000; printf 'no end'")
    launcherd.asked("wait", job)
    assert launcherd.asked("logs", "--tail", "2", job) == "[0]<stdout>:1000\n[0]<stdout>:no end\n"
    assert launcherd.asked("logs", "--since", "1h", job).count("\n") == 1001
    assert launcherd.asked("logs", "--since", "2099-01-01T00:00:00Z", job) == ""
    assert launcherd.muster("logs", "--since", "noon", job).returncode == 2
    closed = launcherd.cluster.run("head", "alice", ["bash", "-c", f"{MUSTER} logs {job} | head -1; echo ${{PIPESTATUS[0]}}"])
    assert closed.stdout.startswith("[0]<stdout>:1\n"), closed


def test_signals_reach_the_ranks(launcherd):
    job = launcherd.submit("-np", "2", "sh", "-c", "trap 'echo got it; exit 0' USR1; echo up; while :; do sleep 0.1; done")
    follower = launcherd.watch("logs", "-f", job)
    follower.out.wait_for("up", 2)
    assert launcherd.asked("kill", "--signal", "USR1", job) == ""
    assert launcherd.muster("wait", job).returncode == 0
    assert follower.end().stdout.count("got it") == 2


def test_stacks_of_a_job(launcherd):
    job = launcherd.submit("-np", "2", "sh", "-c", WAITS)
    follower = launcherd.watch("logs", "-f", job)
    follower.out.wait_for("up", 2)
    assert launcherd.asked("stacks", job).count("sleep") >= 2
    launcherd.asked("kill", "--now", job)
    follower.end()


def test_foreground_jobs_and_launcherds_side_by_side(launcherd, hvdrun, cluster):
    held = launcherd.submit("-np", "1", "sh", "-c", WAITS)
    foreground = Watched(hvdrun, cluster, args=["-np", "1", "-H", "n4", "sh", "-c", WAITS])
    foreground.out.wait_for("up")
    jobs = {job["id"]: job for job in map(json.loads, launcherd.asked("jobs", "--json").splitlines())}
    assert held in jobs and len(jobs) == 2, jobs
    other = next(job for job in jobs if job != held)
    both = launcherd.muster("status")
    assert both.returncode == 2 and held in both.stderr and other in both.stderr, both
    assert launcherd.muster("kill", other).returncode == 0
    assert foreground.end().rc == 143
    assert launcherd.muster("kill", held).returncode == 0


def test_what_follows_a_job_goes_on_with_the_next_launcherd(launcherd):
    counts = "i=0; while [ $i -lt 60 ]; do echo line $i; i=$((i+1)); sleep 0.05; done; exit 6"
    run = launcherd.run("--name", "counted", "-np", "1", "-H", "n1", "sh", "-c", counts)
    run.out.wait_for("line 3")
    job = launcherd.job("counted")["id"]
    others = [launcherd.watch(*words) for words in (["wait", job], ["logs", "-f", job], ["events", "-f", job])]
    others[2].out.wait_for("RUNNING")
    launcherd.die()
    run.err.wait_for("launcherd does not answer; the job goes on")
    launcherd.come_back()
    lines = "".join(f"[0]<stdout>:line {i}\n" for i in range(60))
    result = run.end()
    assert (result.rc, result.stdout) == (6, lines), result
    assert last_line(result).endswith("exit code 6 is that of rank 0 on n1"), result
    waited, read, told = (other.end() for other in others)
    assert waited.rc == 6 and (read.rc, read.stdout) == (0, lines), read
    assert told.stdout.count("ended with exit code 6") == 1 and told.stdout.count("rank 0 runs") == 1, told


def test_top_for_scripts(launcherd):
    """test_71_top.py has the screen."""
    job = launcherd.submit("-np", "4", "sh", "-c", WAITS)
    waiting = launcherd.submit("-np", "8", "true")
    page = launcherd.watch("top", "--interval", "200ms")
    page.out.wait_for(f"{job}  RUNNING +4 ")
    page.out.wait_for(f"{waiting} waits: needs 8 slots, 4 are free")
    page.out.wait_for("4 of 8 slots used on 4 hosts")
    launcherd.asked("kill", job)
    page.out.wait_for("0 of 8 slots used")
    page.signal(signal.SIGINT)
    assert page.end().rc == 0
    hosts, jobs = map(json.loads, launcherd.asked("top", "--once", "--json").splitlines())
    assert [host["name"] for host in hosts["hosts"]] == ["n1", "n2", "n3", "n4"] and jobs["jobs"] == [], jobs
    assert launcherd.asked("top", "--once").startswith("0 jobs running, 0 waiting; 0 of 8 slots used on 4 hosts")


def test_report_of_jobs(launcherd, cluster):
    """Jobs of 1 and 2 ranks and one that fails, on one page."""
    jobs = [launcherd.submit("-np", str(size), "sh", "-c", "exit 0") for size in (1, 2)]
    jobs.append(launcherd.submit("-np", "2", "sh", "-c", "[ $MUSTER_RANK = 0 ] && exec sleep 1000; exit 5"))
    for job, code in zip(jobs, (0, 0, 5)):
        launcherd.asked("wait", job, code=code)
    page = launcherd.asked("report", jobs[2])
    assert page.startswith("<!doctype html>") and f"<h1>Job {jobs[2]}</h1>" in page
    assert re.search(r'<title>rank 1 on n\d: exit code 5, [^<]*</title><rect class="kRootCause"', page), page
    assert re.search(r'<title>rank 0 on n\d: signal 15 [^<]*</title><rect class="kStopped"', page), page
    launcherd.asked("report", "-o", "/home/alice/jobs.html", *jobs)
    page = cluster.path("head", "/home/alice/jobs.html").read_text()
    assert re.search(rf"<td>{jobs[0]}</td><td>1</td><td>\d+\.\d\d s</td><td>1.00</td><td>100 %</td>", page), page
    assert re.search(rf"<td>{jobs[1]}</td><td>2</td>", page) and f"<td>{jobs[2]}</td>" not in page
    assert launcherd.muster("report", "-o", "/nowhere/x.html", jobs[0]).returncode == 125


def test_mistakes(launcherd):
    for words, sentence in ((["submit", "--priorty", "1", "true"], "did you mean --priority?"),
                            (["submit"], "no command is given"),
                            (["logs", "zzzzzzzz"], "no job begins with zzzzzzzz or is named so: muster jobs --all lists them"),
                            (["lgs"], "did you mean logs?")):
        result = launcherd.muster(*words)
        assert result.returncode == 2 and sentence in result.stderr, result
    for option in ("--pty", "--stdin=all"):
        result = launcherd.hvdrun(["--launcher", "auto", option, "true"])
        assert result.rc == 2 and "have no input" in result.stderr, result


def test_of_another_user_nothing_is_seen(launcherd, cluster):
    job = launcherd.submit("-np", "1", "sh", "-c", WAITS)
    assert launcherd.asked("jobs", user="bob") == ""
    socket = re.search(r"serving (unix:\S+)", launcherd.watched.err.text).group(1)
    asked = launcherd.muster("status", "--launcher", socket, job, user="bob")
    assert asked.returncode != 0 and job not in asked.stdout, asked
    launcherd.asked("kill", job)


def test_no_launcherd_runs(cluster, hvdrun, no_leftovers):
    for words in (["submit", "true"], ["hosts"], ["jobs", "--all"], ["logs", "abcd"]):
        result = cluster.run("head", "alice", [MUSTER, *words])
        assert result.returncode == 2 and "launcherd" in result.stderr, result
    result = cluster.run("head", "alice", [MUSTER, "submit", "true"])
    assert "start one with launcherd --hostfile FILE" in result.stderr, result
    result = cluster.run("head", "alice", [MUSTER, "hosts", "--launcher", "unix:/tmp/none.sock"])
    assert result.returncode == 1 and "no launcherd answers at unix:/tmp/none.sock" in result.stderr, result
    result = hvdrun(["--launcher", "auto", "true"])
    assert result.rc == 2 and "start one with launcherd" in result.stderr, result
