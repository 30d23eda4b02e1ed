"""muster trace: a job of a real launcherd as a trace in Chrome's format, as Perfetto reads it.

The rules of the format stand for Perfetto's own reader: PyPI's `perfetto` downloads that program when it is first used, and
our tests download nothing.
"""
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


# The fields that an entry of each kind must have, with their types (Trace Event Format: complete, instant and metadata
# events).
FIELDS = {"X": {"name": str, "ts": int, "dur": int, "pid": int, "tid": int, "args": dict},
          "i": {"name": str, "ts": int, "s": str, "pid": int, "tid": int, "args": dict},
          "M": {"name": str, "pid": int, "args": dict}}
METADATA = {"process_name": ("name", str), "process_sort_index": ("sort_index", int), "thread_name": ("name", str)}


def check_entry(entry):
    fields = FIELDS[entry["ph"]]
    assert set(fields) <= set(entry) <= {*fields, "ph", "tid"}, entry
    assert all(type(entry[name]) is kind for name, kind in fields.items()), entry
    assert entry.get("dur", 0) >= 0 and entry.get("s", "p") in ("g", "p", "t"), entry
    assert all(isinstance(value, (str, int, bool)) for value in entry["args"].values()), entry
    if entry["ph"] == "M":
        name, kind = METADATA[entry["name"]]
        assert type(entry["args"][name]) is kind and ("tid" in entry) == (entry["name"] == "thread_name"), entry


def check_form(document):
    """What the format demands of each entry, and that no thread does two things at once."""
    assert set(document) == {"traceEvents", "displayTimeUnit", "otherData"}, document.keys()
    assert document["displayTimeUnit"] in ("ms", "ns")
    for entry in document["traceEvents"]:
        check_entry(entry)
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
