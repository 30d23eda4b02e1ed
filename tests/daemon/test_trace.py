"""muster trace: a job of a real launcherd as a trace in Chrome's format, as Perfetto reads it."""
import json
import subprocess

from conftest import BIN


def trace(daemon, job):
    result = subprocess.run([BIN / "muster", "trace", "--launcher", f"unix:{daemon.socket}", job], capture_output=True,
                            text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result
    return json.loads(result.stdout)


def spans(document):
    return [entry for entry in document["traceEvents"] if entry["ph"] == "X"]


def check_form(document):
    """What the format demands of each entry, and that no thread does two things at once."""
    named = {(entry["pid"], entry.get("tid")) for entry in document["traceEvents"] if entry["ph"] == "M"}
    for entry in document["traceEvents"]:
        assert entry["ph"] in "XiM" and isinstance(entry["pid"], int) and isinstance(entry["args"], dict), entry
        if entry["ph"] != "M":
            assert entry["ts"] >= 0 and (entry["pid"], entry["tid"]) in named, entry
    lanes = {}
    for span in spans(document):
        lanes.setdefault(span["tid"], []).append((span["ts"], span["ts"] + span["dur"]))
    for lane in lanes.values():
        lane.sort()
        assert all(end <= begin for (_, end), (begin, _) in zip(lane, lane[1:])), lane


def test_a_job_that_has_ended(launcherd):
    daemon = launcherd()
    api = daemon.client()
    job = api.submit(["sh", "-c", "exit $MUSTER_RANK"], size=2, request_name="night")
    end = api.wait(job)
    document = trace(daemon, job)
    check_form(document)
    processes = {entry["pid"]: entry["args"]["name"] for entry in document["traceEvents"]
                 if entry["name"] == "process_name"}
    assert sorted(processes.values()) == [f"launcher: job {job} night", "localhost"], processes
    by_name = {span["name"]: span for span in spans(document)}
    running, failed = by_name["running"], by_name["rank 1"]
    assert processes[running["pid"]].startswith("launcher") and processes[failed["pid"]] == "localhost"
    assert failed["args"]["exit_code"] == 1 and failed["args"]["generation"] == 0
    assert by_name["rank 0"]["args"]["pid"] > 0 and "unfinished" not in failed["args"]
    assert by_name["starting"]["ts"] <= failed["ts"] < running["ts"] + running["dur"]
    length = (end.ended.ToMicroseconds() - document["otherData"]["began_us"])
    assert max(span["ts"] + span["dur"] for span in spans(document)) <= length + 1_000_000


def test_a_job_that_runs(launcherd):
    daemon = launcherd()
    api = daemon.client()
    job = api.submit(["sleep", "1000"], size=1)
    api.until(job, "RUNNING")
    document = trace(daemon, job)
    check_form(document)
    rank, = [span for span in spans(document) if span["name"] == "rank 0"]
    assert rank["args"]["unfinished"] is True
    api.kill(job, at_once=True)
    api.wait(job)


def test_an_unknown_job(launcherd):
    daemon = launcherd()
    result = subprocess.run([BIN / "muster", "trace", "--launcher", f"unix:{daemon.socket}", "zzzzzzzz"], text=True,
                            capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    assert result.returncode == 2 and "zzzzzzzz" in result.stderr and not result.stdout, result
