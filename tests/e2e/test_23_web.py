"""launcherd's HTTP port: who may ask, what is answered, and the page in a browser."""

import datetime
import json
import os
import pathlib
import re
import shutil

import pytest
from conftest import BIN_DIR
from console import PYTHON, Watched
from launcherd_user import STATE, Launcherd

BROWSE = pathlib.Path(__file__).with_name("browse.py")
CHECKS = pathlib.Path(__file__).with_name("browse_checks.py")
LONG = pathlib.Path(__file__).with_name("browse_long.py")
BAR_STEPS = 6000
# A progress bar as tqdm's, in colour, and two lines that are drawn over.
BARS = f"""
import sys
for i in range({BAR_STEPS} + 1):
    sys.stderr.write("\\r\\x1b[32m%3d%%\\x1b[0m| %d/{BAR_STEPS} " % (100 * i // {BAR_STEPS}, i))
    sys.stderr.flush()
sys.stderr.write("done\\n")
sys.stdout.write("a long first try\\rsecond\\x1b[K\\r\\n")
"""
# A bar for each rank, until the job is killed.
MOVING_BARS = """
import itertools, sys, time
for i in itertools.count():
    sys.stderr.write("\\r\\x1b[32m%3d%%\\x1b[0m| %d it" % (i % 100, i))
    sys.stderr.flush()
    time.sleep(0.002)
"""
# 20 MB together with three others, within 10 s.
LOG = """
import time
for _ in range(100):
    print("line of the log " * 4 + "\\n" + "line of the log\\n" * 3000, flush=True)
    time.sleep(0.1)
print("theend")
"""
MANY = 10_000
COPY = """
import sqlite3, sys
state, job, count = sys.argv[1:]
store = sqlite3.connect(state + "/jobs.sqlite")
columns = "priority, state, reason, attempt, exit_code, submitted_us, started_us, ended_us, last_sequence"
letters = "abcdefghijklmnopqrstuvwxyz234567"
with store:
    number, = store.execute("SELECT number FROM jobs WHERE id = ?", (job,)).fetchone()
    for i in range(int(count)):
        name = "".join(letters[i >> (5 * place) & 31] for place in range(4)).rjust(8, "z")
        new = store.execute(f"INSERT INTO jobs (id, name, {columns}) SELECT ?, ?, {columns} FROM jobs WHERE number = ?",
                            (name, f"copy-{i}", number)).lastrowid
        store.execute("INSERT INTO specs SELECT ?, content FROM specs WHERE job = ?", (new, number))
"""
ASK = """
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=20)
headers = {"Host": sys.argv[3]} if len(sys.argv) > 3 else {}
try:
    connection.request("GET", sys.argv[2], headers=headers)
    response = connection.getresponse()
    print(response.status)
    print(response.read().decode(), end="")
except (ConnectionError, http.client.HTTPException) as problem:
    print(type(problem).__name__)
"""
LINES = "i=0; while [ $i -lt 300 ]; do echo \"line $i <img src=x onerror=alert(1)>\"; i=$((i+1)); done; exec sleep 1000"


@pytest.fixture
def launcherd(hvdrun, cluster, no_leftovers):
    daemon = Launcherd(hvdrun, cluster, "--http", "127.0.0.1:0")
    daemon.url = re.search(r"http://127\.0\.0\.1:\d+", daemon.watched.err.text).group(0)
    yield daemon
    daemon.close()


def get(launcherd, path, *host, user="alice"):
    """(status, body)"""
    port = launcherd.url.rsplit(":", 1)[1]
    told = launcherd.cluster.run("head", user, [PYTHON, "-I", "-c", ASK, port, path, *host], check=True).stdout
    status, _, body = told.partition("\n")
    return status, body


def test_the_api_in_json(launcherd):
    job = launcherd.submit("-np", "4", "--name", "night", "sh", "-c", "echo up; exec sleep 1000", env={"SECRET": "s3cret"})
    follower = launcherd.watch("logs", "-f", job)
    follower.out.wait_for("up", 4)
    assert get(launcherd, "/healthz") == ("200", "ok\n")
    status, metrics = get(launcherd, "/metrics")
    assert status == "200" and 'muster_jobs{state="running"} 1\n' in metrics and "muster_ranks 4\n" in metrics, metrics
    assert 'muster_host_used_slots{host="n1"} 2\n' in metrics, metrics
    listed = json.loads(get(launcherd, "/api/jobs")[1])["jobs"]
    assert [(each["id"], each["name"]) for each in listed] == [(job, "night")]
    whole = json.loads(get(launcherd, f"/api/jobs/{job[:4]}")[1])
    assert [rank["host"] for rank in whole["ranks"]] == ["n1", "n1", "n2", "n2"]
    hosts = json.loads(get(launcherd, "/api/hosts")[1])["hosts"]
    assert [(host["name"], host["used_slots"]) for host in hosts] == [("n1", 2), ("n2", 2), ("n3", 0), ("n4", 0)]
    status, none = get(launcherd, "/api/jobs/zzzzzzzz")
    assert status == "404" and json.loads(none)["code"] == "NOT_FOUND", none
    assert "s3cret" not in metrics + json.dumps(listed) + json.dumps(whole)
    launcherd.asked("kill", job)
    follower.end()
    status, events = get(launcherd, f"/api/jobs/{job}/events")
    assert status == "200" and "event: end\n" in events and '"job_ended"' in events, events
    status, logs = get(launcherd, f"/api/jobs/{job}/logs?rank=2")
    assert status == "200" and logs.count("event: log\n") == 2, logs  # a line, and the end of the rank


def test_for_its_user_on_this_machine_alone(launcherd, cluster):
    for user in ("bob", "root"):
        status, text = get(launcherd, "/metrics", user=user)
        assert status == "403" and "processes of its user, uid " in text and "muster_" not in text, text
    assert get(launcherd, "/api/jobs", "evil.example")[0] == "421"
    assert get(launcherd, "/healthz")[0] == "200"


def test_only_loopback(hvdrun, cluster):
    result = hvdrun([], argv=[str(BIN_DIR / "launcherd"), "--http", "0.0.0.0:7480", "--state", "/home/alice/s"])
    cluster.run("head", "alice", ["rm", "-rf", "/home/alice/s"], check=True)
    assert result.rc != 0 and "127.0.0.1:7480" in result.stderr, result


browser_test = pytest.mark.skipif(not shutil.which("chromedriver"), reason="chromium-driver is not installed")


@browser_test
def test_the_page_in_a_browser(launcherd, hvdrun, cluster):
    pytest.importorskip("selenium", reason="python3-selenium is not installed")
    job = launcherd.submit("-np", "4", "--name", "night run", "sh", "-c", LINES)
    browsing = Watched(hvdrun, cluster, argv=[PYTHON, str(BROWSE), launcherd.url, job, "/tmp/page.png"],
                       env={"HOME": "/home/alice", "TMPDIR": "/tmp"})
    browsing.out.wait_for("ready", timeout=90)
    assert launcherd.muster("kill", job).returncode == 0
    result = browsing.end(timeout=90)
    assert result.rc == 0, result
    seen = json.loads(result.stdout.splitlines()[-1])
    assert [host.split()[0] for host in seen["hosts"]] == ["n1", "n2", "n3", "n4"] and seen["grid"] == {"n1": 2, "n2": 2}, seen
    assert len(seen["loads"]) == 2 and all(re.fullmatch(r"cpu \d+%, \d+(\.\d)? [kM]?B/s", load) for load in seen["loads"]), seen
    assert [host.endswith("%") for host in seen["hosts"]] == [True, True, False, False], seen  # n3 and n4 have no agent
    assert seen["legend"] == [" running: 4"] and seen["bars"] == 5, seen  # the job's phase, and its ranks
    assert seen["facts"]["command"].startswith("sh -c 'i=0; while ") and seen["facts"]["directory"].startswith("/"), seen
    assert "1 running, 0 waiting; 4 of 8 slots on 4 hosts" in seen["summary"], seen
    assert seen["lines"] == 1200 and seen["injected"] == 0, seen  # what ranks print is text, never markup
    assert len(seen["found"]) == 4 and seen["marked"] == 4 and all("line 299 <img" in line for line in seen["found"]), seen
    assert len(seen["cells"]) == 4 and seen["errors"] == [], seen
    wanted = os.environ.get("MUSTER_SCREENSHOT")
    if wanted:
        shutil.copyfile(cluster.path("head", "/tmp/page.png"), wanted)
    cluster.run("head", "alice", ["rm", "-f", "/tmp/page.png"], check=True)


class Check:
    """A question of browse_checks.py, and the answer."""

    def __init__(self, launcherd, *words, env=None, script=CHECKS):
        pytest.importorskip("selenium", reason="python3-selenium is not installed")
        self.watched = Watched(launcherd.hvdrun, launcherd.cluster,
                               argv=[PYTHON, "-B", str(script), launcherd.url, *map(str, words)],
                               env={"HOME": "/home/alice", "TMPDIR": "/tmp"} | (env or {}))

    def seen(self, timeout=240):
        result = self.watched.end(timeout=timeout)
        assert result.rc == 0, result.stderr
        seen = json.loads(result.stdout.splitlines()[-1])
        assert seen.pop("errors") == [], seen
        return seen


@browser_test
def test_the_page_shows_every_job_that_runs(launcherd):
    """Also one that is older than the newest page of jobs."""
    running = launcherd.submit("-np", "4", "sleep", "1000")
    many = 120
    script = f"for i in $(seq {many}); do {BIN_DIR}/muster submit -np 8 true || exit; done"
    waiting = launcherd.cluster.run("head", "alice", ["sh", "-c", script], timeout=300, check=True).stdout.split()
    assert len(waiting) == many
    check = Check(launcherd, "jobs", running, many)
    check.watched.out.wait_for("ready", timeout=120)
    launcherd.cluster.run("head", "alice", [str(BIN_DIR / "muster"), "kill", *waiting], timeout=300)
    seen = check.seen()
    assert seen["first"] == running and seen["page"] == f"1–100 of {many + 1}", seen
    assert f"1 running, {many} waiting; 4 of 8 slots" in seen["summary"], seen
    assert seen["second"] == {"page": f"101–{many + 1} of {many + 1}", "repeated": []}, seen
    assert seen["filtered"] == {"ids": [running], "page": "1–1 of 1"} and seen["nothing"] == ["no job matches"], seen
    assert seen["open"] == [running], seen
    launcherd.asked("kill", running)


@browser_test
def test_the_page_shows_progress_bars_as_a_terminal(launcherd):
    job = launcherd.submit("-np", "4", PYTHON, "-c", BARS)
    launcherd.asked("wait", job)
    log = Check(launcherd, "bars", job, 4).seen()["log"]
    assert sorted(log) == sorted([f"[{rank}] 100%| {BAR_STEPS}/{BAR_STEPS} done" for rank in range(4)] +
                                 [f"[{rank}] second" for rank in range(4)]), log


@browser_test
def test_the_page_shows_the_elements_of_an_array(launcherd):
    job = launcherd.submit("--array", "0-69", "sh", "-c", "echo element $MUSTER_ARRAY_INDEX; exit $((MUSTER_ARRAY_INDEX % 2 * 3))")
    launcherd.asked("wait", job, code=3)
    seen = Check(launcherd, "array", job).seen()
    assert seen["counts"] == ["70 elements: 35 succeeded, 35 failed"] and seen["shown"] == [True, False, False], seen
    assert len(seen["first"]) == 50 and seen["first"][:2] == ["0succeeded01", "1failed31"], seen
    assert len(seen["second"]) == 20 and seen["second"][-1] == "69failed31" and seen["before"], seen
    assert f"{job}[1]" in seen["element"][0] and seen["element"][1] is False, seen


@browser_test
def test_the_page_tells_the_rank_that_failed_from_those_that_were_stopped(launcherd):
    job = launcherd.submit("-np", "4", "sh", "-c", "[ $MUSTER_RANK = 3 ] && exit 7; exec sleep 1000")
    launcherd.asked("wait", job, code=7)
    seen = Check(launcherd, "ends", job, env={"TZ": "America/Chicago"}).seen()
    assert (seen["root"], seen["stopped"]) == (["3"], ["0", "1", "2"]), seen
    assert seen["legend"] == [" root cause: 1", " stopped by Muster: 3"], seen
    assert re.fullmatch(r"rank 3, ended, pid \d+, exit code 7 \(root cause\)", seen["titles"][3]), seen
    assert seen["titles"][0].endswith("signal 15 after the stop (stopped by Muster)"), seen
    assert any("exit code 7" in line for line in seen["events"]), seen
    for utc, shown in seen["times"]:
        at = datetime.datetime.fromisoformat(re.sub(r"\.\d+Z$", "", utc).rstrip("Z"))
        local, zone = shown.rsplit(" UTC", 1)
        ahead = datetime.timedelta(hours=int(zone[:3]), minutes=int(zone[0] + zone[4:]))
        assert zone in ("-06:00", "-05:00") and local.startswith(str(at + ahead)), (utc, shown)


@browser_test
def test_the_page_is_read_in_the_dark_and_by_keyboard(launcherd):
    """Every text of the page has enough contrast, and every field a name."""
    job = launcherd.submit("-np", "1", "sh", "-c", "echo out; echo err >&2; exec sleep 1000")
    seen = Check(launcherd, "access", job).seen()
    launcherd.asked("kill", job)
    assert seen["focused"] == job and seen["nameless"] == [], seen
    for where, contrasts in seen["contrasts"].items():
        assert contrasts["low"] == [] and contrasts["checked"] > 30, (where, contrasts)
        assert (contrasts["ground"] < 0.1) == where.startswith("dark"), (where, contrasts)
    assert re.fullmatch(r"rank 0, running, pid \d+.*", seen["detail"][0]), seen
    assert {"?", "/", "s"} <= set(seen["keys"]), seen


@browser_test
def test_the_page_on_a_narrow_screen(launcherd):
    job = launcherd.submit("-np", "4", "sh", "-c", "echo " + "long" * 100 + "; exec sleep 1000")
    seen = Check(launcherd, "narrow", job).seen()
    launcherd.asked("kill", job)
    for page in ("overview", "job", "host"):
        assert seen[page][0] <= 360, seen
    assert seen["facts"]["health"] == "good" and seen["facts"]["slots"] == "2 of 2", seen
    assert any(graph.startswith("CPU ") for graph in seen["graphs"]), seen


@browser_test
def test_the_output_on_the_page(launcherd):
    script = "printf 'plain\\n\\033[31mRed %s\\033[0m\\n' $MUSTER_RANK; printf '\\033[1mloud\\033[0m\\n' >&2; exec sleep 1000"
    job = launcherd.submit("-np", "4", "sh", "-c", script)
    seen = Check(launcherd, "log", job).seen()
    status, saved = get(launcherd, f"/api/jobs/{job}/log.txt?stream=stderr&rank=1-2")
    launcherd.asked("kill", job)
    assert seen["red"] == [f"Red {rank}" for rank in range(4)] and seen["bold"] == 4, seen
    assert seen["stderr"] == [f"[{rank}] loud" for rank in range(4)], seen
    assert seen["download"].endswith(f"/api/jobs/{job}/log.txt?rank=1-2"), seen
    assert seen["marks"] == ["Red 0", "Red 2"], seen
    assert any(stack.startswith("ranks 0-3 on n1, n2") for stack in seen["stacks"]), seen["stacks"]
    assert (status, saved) == ("200", "\033[1mloud\033[0m\n" * 2)


@browser_test
def test_bars_that_move_do_not_freeze_the_page(launcherd):
    job = launcherd.submit("-np", "8", PYTHON, "-c", MOVING_BARS)
    seen = Check(launcherd, "live", job).seen()
    launcherd.asked("kill", job)
    print(seen)
    assert seen["lines"] == 8 and seen["moved"] == 8, seen
    assert seen["frames"] > 50 and seen["longest_ms"] < 1000, seen  # of 300; the machine runs other tests, too


@browser_test
def test_a_list_of_ten_thousand_jobs(launcherd):
    """Copies of one job, written into the store of a launcherd that does not run."""
    job = launcherd.submit("-np", "1", "true")
    launcherd.asked("wait", job)
    launcherd.die()
    launcherd.cluster.run("head", "alice", [PYTHON, "-I", "-c", COPY, STATE, job, str(MANY - 1)], timeout=120, check=True)
    launcherd.come_back()
    launcherd.url = re.search(r"http://127\.0\.0\.1:\d+", launcherd.watched.err.text).group(0)
    seen = Check(launcherd, "many", MANY).seen()
    print(seen)
    assert max(seen["first_s"], seen["next_s"], seen["filter_again_s"]) < 5, seen  # 0.5 s on a machine of its own
    assert max(seen["long_tasks_ms"], default=0) < 500, seen
    listed = launcherd.asked("jobs", "--all", "--filter", "copy-4242 SUCCEEDED", "--json").splitlines()
    assert [json.loads(line)["name"] for line in listed] == ["copy-4242"], listed


def is_flat(samples):
    """The JS heap after garbage collections, and the number of DOM nodes, in the second half beside the first."""
    half = len(samples) // 2
    (_, heap, nodes), (_, later_heap, later_nodes) = (max(part, key=lambda sample: sample[1]) for part in (samples[:half], samples[half:]))
    return later_heap < 1.2 * heap + 1_000_000 and later_nodes < 1.2 * nodes + 500


@browser_test
def test_the_page_goes_on_when_launcherd_is_killed_and_comes_back(hvdrun, cluster, no_leftovers):
    """The short form of bench/page."""
    launcherd = Launcherd(hvdrun, cluster, "--http", "127.0.0.1:7480")
    launcherd.url = "http://127.0.0.1:7480"
    # Each bar changes 20 times a second, about as often as tqdm's. A loaded machine can draw no more.
    job = launcherd.submit("-np", "8", PYTHON, "-c", MOVING_BARS.replace("0.002", "0.05"))
    check = Check(launcherd, "bars", job, 12, 8, script=LONG)
    check.watched.out.wait_for("ready", timeout=180)
    launcherd.die()
    check.watched.out.wait_for("lost", timeout=120)
    launcherd.come_back()
    seen = check.seen()
    launcherd.asked("kill", job)
    launcherd.close()
    print(seen)
    assert is_flat(seen["samples"][1:]), seen["samples"]
    assert seen["lines"] >= 8 and max(seen["long_tasks_ms"], default=0) < 1000, seen  # 100 on a machine of its own


@browser_test
def test_the_page_follows_fast_output(launcherd):
    job = launcherd.submit("-np", "4", PYTHON, "-c", LOG)
    seen = Check(launcherd, "log", job, "theend", script=LONG).seen()
    print(seen)
    assert 0 < seen["lines"] <= 5000 and seen["samples"][-1][1] < 60_000_000, seen
    assert max(seen["long_tasks_ms"] + seen["scroll_and_search_long_tasks_ms"], default=0) < 1000, seen


@pytest.fixture
def writable(hvdrun, cluster, no_leftovers):
    daemon = Launcherd(hvdrun, cluster, "--http", "127.0.0.1:0", "--http-write")
    daemon.url = re.search(r"http://127\.0\.0\.1:\d+", daemon.watched.err.text).group(0)
    yield daemon
    daemon.close()


def test_actions_need_the_token(writable, cluster):
    mode, token = cluster.run("head", "alice", ["sh", "-c", f"stat -c %a {STATE}/http-token; cat {STATE}/http-token"],
                              check=True).stdout.split()
    assert mode == "600" and re.fullmatch("[0-9a-f]{64}", token), mode
    assert f"need the token in {STATE}/http-token" in writable.watched.err.text and token not in writable.watched.err.text
    job = writable.submit("-np", "1", "sleep", "1000")

    def post(path, *headers):
        port = writable.url.rsplit(":", 1)[1]
        words = [word for header in headers for word in ("-H", header)]
        return cluster.run("head", "alice", ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST", *words,
                                             f"http://127.0.0.1:{port}/api/{path}"], check=True).stdout

    good = f"X-Muster-Token: {token}"
    assert post(f"jobs/{job}/kill") == "403"
    assert post(f"jobs/{job}/kill", "X-Muster-Token: " + token[::-1]) == "403"
    assert post(f"jobs/{job}/kill", good, "Origin: http://evil.example") == "403"
    assert post("hosts/n2/drain?reason=a%20fan", good) == "200"
    assert writable.host("n2")["drained"] and writable.host("n2")["reason"] == "a fan"
    assert post("hosts/n2/resume", good) == "200" and not writable.host("n2")["drained"]
    assert writable.job(job)["state"] in ("JOB_STATE_STARTING", "JOB_STATE_RUNNING")
    assert post(f"jobs/{job}/kill", good) == "200"
    writable.muster("wait", job)
    assert writable.job(job)["state"] == "JOB_STATE_KILLED"


@browser_test
def test_a_job_is_killed_on_the_page(writable, cluster):
    token = cluster.run("head", "alice", ["cat", f"{STATE}/http-token"], check=True).stdout.strip()
    job = writable.submit("-np", "1", "sleep", "1000")
    seen = Check(writable, "kill", job, token).seen()
    assert seen["refused"] == "kill: X-Muster-Token: not the token of this launcherd", seen
    assert "killed" in seen["title"], seen
