"""Output that launcherd has acknowledged and its disk has lost: the job ends all the same, what is left is there, and what
is missing is told."""
import os
import pathlib
import re
import subprocess

import conftest
import pytest

RECORD = 44  # bytes of a journal's record beyond its payload


def gates(tmp_path, *names):
    for name in names:
        os.mkfifo(tmp_path / name)
    return [tmp_path / name for name in names]


def wait_for_output(api, job, text):
    seen = b""
    for chunk in api.api.Logs(api.stubs.launcher.LogsRequest(job=job, follow=True), timeout=api.PATIENCE):
        seen += chunk.data
        if text in seen:
            return
    raise AssertionError(f"{text} did not come: {seen}")


def lost_bytes(api, job):
    """By host."""
    lost = {}
    for chunk in api.api.Logs(api.stubs.launcher.LogsRequest(job=job), timeout=api.PATIENCE):
        if chunk.lost_bytes:
            lost[chunk.lost_host] = lost.get(chunk.lost_host, 0) + chunk.lost_bytes
    return lost


def kill_after_two_lines(daemon, tmp_path):
    """(a job that runs on without a launcherd, the gate behind which it writes "three" and ends with 7)"""
    api = daemon.client()
    first, second = gates(tmp_path, "first", "second")
    job = api.submit(["sh", "-c", f"echo one; read x < {first}; echo two; read x < {second}; echo three; exit 7"])
    wait_for_output(api, job, b"one\n")
    first.write_text("on\n")
    wait_for_output(api, job, b"two\n")  # so "one" was acknowledged
    daemon.end("KILL")
    return job, second


def end_with_losses(api, job, gate):
    """Lets the job of kill_after_two_lines() write "three" and end; (its end, the lost bytes by host)."""
    gate.write_text("on\n")
    ended = api.wait(job)
    assert ended.exit_code == 7, ended
    # "two" is lost as well as "one", unless its acknowledgement was.
    output, lost = api.output(job), lost_bytes(api, job)
    assert (output, lost) in [(b"three\n", {"localhost": 8}), (b"two\nthree\n", {"localhost": 4})]
    return ended, lost


@pytest.mark.parametrize("left", [0, RECORD, RECORD + 20])
def test_a_journal_is_shorter_than_what_was_acknowledged(launcherd, tmp_path, left):
    daemon = launcherd()
    job, second = kill_after_two_lines(daemon, tmp_path)
    os.truncate(daemon.state / "jobs" / job / "output", left)

    daemon = launcherd()
    api = daemon.client()
    ended, lost = end_with_losses(api, job, second)
    said = f"{lost['localhost']} bytes of the output of localhost are "
    assert said + "lost: launcherd's disk confirmed the write and lost it" in ended.reason
    shown = subprocess.run([conftest.BIN / "muster", "logs", job, "--launcher", f"unix:{daemon.socket}"],
                           capture_output=True, text=True, timeout=api.PATIENCE)
    assert re.search(said + "missing here", shown.stderr), shown
    assert shown.stdout.endswith("three\n")


def test_of_a_second_loss_the_sum_is_told(launcherd, tmp_path):
    daemon = launcherd()
    api = daemon.client()
    first, second, third = gates(tmp_path, "first", "second", "third")
    script = f"echo one; read x < {first}; echo two; read x < {second}; echo three; read x < {third}; echo four"
    job = api.submit(["sh", "-c", script])
    wait_for_output(api, job, b"one\n")
    first.write_text("on\n")
    wait_for_output(api, job, b"two\n")
    daemon.end("KILL")
    journal = daemon.state / "jobs" / job / "output"
    os.truncate(journal, RECORD)
    daemon = launcherd()
    api = daemon.client()
    second.write_text("on\n")
    wait_for_output(api, job, b"three\n")
    before = sum(lost_bytes(api, job).values())
    daemon.end("KILL")  # nothing is lost this time: what was is not told twice
    api = launcherd().client()
    third.write_text("on\n")
    ended = api.wait(job)
    assert ended.exit_code == 0, ended
    assert lost_bytes(api, job) == {"localhost": before}
    assert f"{before} bytes of the output of localhost are lost" in ended.reason
    assert len(api.output(job)) + before == len("one\ntwo\nthree\nfour\n")


def test_a_damaged_journal_ends_no_job(launcherd, tmp_path):
    daemon = launcherd()
    job, second = kill_after_two_lines(daemon, tmp_path)
    journal = daemon.state / "jobs" / job / "output"
    content = bytearray(journal.read_bytes())
    content[RECORD + 2] ^= 1  # in the header of the second record: the first one begins the attempt
    journal.write_bytes(content)

    daemon = launcherd(waits=False)
    line = daemon.line_with(f"job {job}: {journal} is damaged at byte {RECORD}:")
    assert f"{len(content) - RECORD} bytes from there on were moved to {journal}.damaged" in line
    assert pathlib.Path(f"{journal}.damaged").read_bytes() == content[RECORD:]
    daemon.line_with("serving")
    api = daemon.client()
    ended, lost = end_with_losses(api, job, second)
    assert f"{lost['localhost']} bytes of the output of localhost are lost" in ended.reason
