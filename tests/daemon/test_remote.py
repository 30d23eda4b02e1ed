"""hvdrun --launcher: a job of launcherd, as if it ran here."""
import os
import re
import signal
import subprocess

import pytest
from conftest import BIN


def hvdrun(daemon, *words, **options):
    command = [BIN / "hvdrun", "--launcher", f"unix:{daemon.socket}", *words]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, **options)


def jobs(api):
    return api.api.ListJobs(api.stubs.launcher.ListJobsRequest(all=True), timeout=api.PATIENCE).jobs


@pytest.mark.parametrize("option", ["--json-events", "--output-filename"])
def test_a_file_that_cannot_be_opened_starts_nothing(launcherd, tmp_path, option):
    daemon = launcherd()
    (tmp_path / "file").touch()
    result = hvdrun(daemon, option, tmp_path / "file/within", "-np", "1", "sleep", "1000")
    assert result.returncode == 2, result
    assert str(tmp_path / "file/within") in result.stderr
    assert not jobs(daemon.client())


def test_a_file_that_fails_later_ends_the_job_and_names_it(launcherd, tmp_path):
    daemon = launcherd()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/rank.0").touch()
    result = hvdrun(daemon, "--output-filename", tmp_path / "out", "-np", "1", "sleep", "1000")
    assert result.returncode == 125, result
    job = re.search(r"the submitted job (\w{8}) was ended", result.stderr).group(1)
    api = daemon.client()
    api.wait(job)
    assert api.state(job) == "KILLED"


def test_output_and_events_go_to_files(launcherd, tmp_path):
    daemon = launcherd()
    result = hvdrun(daemon, "--output-filename", tmp_path / "out", "--json-events", tmp_path / "events", "-np", "2",
                    "sh", "-c", "echo $MUSTER_RANK")
    assert result.returncode == 0, result
    assert [(tmp_path / f"out/rank.{rank}/stdout").read_text() for rank in (0, 1)] == ["0\n", "1\n"]
    assert '"job_ended"' in (tmp_path / "events").read_text().splitlines()[-1]


@pytest.mark.parametrize("program", [["muster", "submit"], ["hvdrun", "--launcher", None]])
def test_no_answer_in_time_says_what_may_have_happened(launcherd, program):
    daemon = launcherd()
    words = [word or f"unix:{daemon.socket}" for word in program]
    os.kill(daemon.process.pid, signal.SIGSTOP)
    try:
        result = subprocess.run([BIN / words[0], *words[1:], "true"], stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, timeout=120, env={**os.environ, "MUSTER_LAUNCHER": f"unix:{daemon.socket}"})
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)
    assert result.returncode not in (0, 2), result
    assert "may have been submitted all the same" in result.stderr
    assert re.search(r"muster submit --request-id [0-9a-f]{32} makes no second one", result.stderr), result


def test_tensorboard_is_refused_and_written_by_report(launcherd, tmp_path):
    daemon = launcherd()
    environment = {**os.environ, "MUSTER_LAUNCHER": f"unix:{daemon.socket}"}

    def muster(*words):
        return subprocess.run([BIN / "muster", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=120, env=environment)

    for refused in (hvdrun(daemon, "--tensorboard", tmp_path / "runs", "true"),
                    muster("submit", "--tensorboard", tmp_path / "runs", "true")):
        assert refused.returncode == 2 and "--tensorboard: launcherd keeps" in refused.stderr, refused
        assert "muster report JOB --tensorboard DIR" in refused.stderr, refused
    assert not (tmp_path / "runs").exists() and not jobs(daemon.client())
    job = hvdrun(daemon, "--verbose", "-np", "1", "sh", "-c", "exit 7")
    name = re.search(r"job (\w{8}) of the launcherd", job.stderr).group(1)
    written = muster("report", name, "--tensorboard", tmp_path / "runs")
    assert written.returncode == 0 and not written.stdout, written
    (file,) = (tmp_path / "runs").iterdir()
    assert file.name.startswith("events.out.tfevents.") and file.name.endswith(".muster")
    content = file.read_bytes()
    assert b"brain.Event:2" in content and b"job/events" in content, content
    assert muster("report", name, "--tensorboard", "/proc/none/runs").returncode == 125
