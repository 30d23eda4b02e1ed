"""The words of muster for jobs that wait for others, arrays and updates, as users type them."""
import json
import subprocess

import pytest
from conftest import BIN


@pytest.fixture
def muster(launcherd, tmp_path):
    daemon = launcherd()

    def run(*words, code=0):
        asked = subprocess.run([BIN / "muster", *words[:1], "--launcher", f"unix:{daemon.socket}", *words[1:]],
                               stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        assert asked.returncode == code, asked
        return asked.stdout.strip() if code == 0 else asked.stderr.strip()

    return run


def test_a_chain_by_names(muster):
    first = muster("submit", "--hold", "--name", "first", "true")
    second = muster("submit", "--name", "second", "--after", "first", "--after", f"{first[:6]}x:any", "true", code=2)
    assert second.startswith("muster submit: --after: no job begins with"), second
    second = muster("submit", "--name", "second", "--after", "first:any", "true")
    assert f"reason: waits for the end of job {first}" in muster("status", "second")
    circle = muster("update", "first", "--after", "second", code=2)
    assert circle.endswith(f"after: these jobs would wait for each other: {first} -> {second} -> {first}"), circle
    assert muster("update", "second", "--priority", "3", "--deadline", "2h") == f"job {second} is changed"
    status = muster("status", "second")
    assert "\npriority: 3\n" in status and "\ndeadline: " in status, status
    changed = json.loads(muster("update", "--json", "second", "--no-deadline", "--no-after"))
    assert changed["id"] == second and "deadline" not in changed and not changed["after"], changed
    muster("wait", "second")
    assert muster("update", "second", "--priority", "1", code=2).endswith(f"job {second} has ended: SUCCEEDED")
    muster("kill", "first")
    muster("update", "zzzzzzzz", "--priority", "1", code=2)


def test_an_array(muster):
    job = muster("submit", "--array", "0-3%2", "--name", "sweep", "--", "sh", "-c",
                 "echo element $MUSTER_ARRAY_INDEX; exit $((MUSTER_ARRAY_INDEX / 3))")
    muster("wait", job, code=1)
    status = muster("status", job)
    assert "\narray: 0-3%2: 3 succeeded, 1 failed\n" in status and "1 of its 4 elements failed: 3" in status, status
    assert status.endswith("elements  state\n     0-2  SUCCEEDED\n       3  FAILED 1"), status
    assert muster("logs", "sweep[2]").endswith("element 2")
    assert muster("status", f"{job[:7]}[3]").startswith(f"job {job}[3]: FAILED 1 after")
    assert "name one element" in muster("logs", job, code=1)
    events = muster("events", job)
    assert "element 3: STARTING" in events and "element 3: FAILED, exit code 1" in events, events
    assert muster("jobs", "--all").count(job) == 1


def test_elements_are_killed_one_by_one_and_all_at_once(muster):
    job = muster("submit", "--hold", "--array", "0-9999", "sleep", "1000")
    muster("kill", f"{job}[7]")
    assert muster("status", job).endswith("elements  state\n     0-6  QUEUED\n       7  KILLED 143\n  8-9999  QUEUED")
    element = json.loads(muster("status", "--json", f"{job}[8]"))
    assert (element["id"], element["state"]) == (f"{job}[8]", "JOB_STATE_QUEUED"), element
    muster("release", job)
    muster("kill", "--now", job)
    assert json.loads(muster("status", "--json", job))["array"]["killed"] == "10000"
    assert muster("kill", f"{job}[8]", code=1).endswith(f"job {job} has ended: KILLED")


def test_mistakes_submit_nothing(muster):
    for words in (["--array", "9-0"], ["--array", "x"], ["--after", "k7:never"], ["--after", "zzzzzzzz"], ["--after", ""]):
        said = muster("submit", *words, "true", code=2)
        assert words[0] in said, said
    assert muster("jobs", "--all") == ""
