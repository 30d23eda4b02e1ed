"""Words, paths, names and output that are no UTF-8: none of them may stand in the way of anything else."""
import os
import shutil
import subprocess

from conftest import BIN

MARK = "\ufffd"
TORN = b"\xff" + "é".encode() * 4600 + b"\n"  # the last 8 KiB of it begin in mid-character


def test_what_a_rank_says_last(api):
    patient = api.submit(["sh", "-c", "trap 'exit 5' USR1; echo up; while :; do sleep 0.1; done"])
    api.until(patient, "RUNNING")
    ended = api.wait(api.submit(["sh", "-c", r"printf 'caf\351\n' >&2; exit 3"]))
    assert ended.exit_code == 3
    api.api.Signal(api.stubs.launcher.SignalRequest(job=patient, signal=10), timeout=api.PATIENCE)
    assert api.wait(patient).exit_code == 5  # on the same host: its agent is still heard
    report = next(event.job_ended for event in api.watch(ended.id) if event.HasField("job_ended"))
    assert list(report.stderr_tail) == [f"caf{MARK}"]


def test_a_long_line_that_is_cut_in_a_character(api, tmp_path):
    (tmp_path / "said").write_bytes(TORN)
    job = api.submit(["sh", "-c", f"cat {tmp_path}/said >&2"])
    assert api.wait(job).exit_code == 0
    assert api.output(job) == TORN


def test_words_and_variables_are_bytes(api, tmp_path):
    folder = os.path.join(os.fsencode(tmp_path), b"d\xe9")
    os.mkdir(folder)
    job = api.submit([b"sh", b"-c", b'pwd -P; printf "%s\\n" "$1"; cat /proc/self/environ', b"sh", b"caf\xe9"],
                     working_directory=folder, environment={b"N\xe9": b"v\xe9"})
    ended = api.wait(job)
    assert ended.exit_code == 0
    said = api.output(job)
    assert said.startswith(os.path.realpath(folder) + b"\ncaf\xe9\n")
    assert b"\0PWD=" in said  # sh has passed on what it can name itself
    assert list(ended.command)[-1] == f"caf{MARK}"  # to be read by people
    assert f"N{MARK}" in ended.environment_names
    direct = api.submit(["env"], environment={b"N\xe9": b"v\xe9"})
    assert api.wait(direct).exit_code == 0
    assert b"N\xe9=v\xe9\n" in api.output(direct)


def test_a_command_that_is_not_there(api):
    ended = api.wait(api.submit([b"/nonexistent/\xe9"]))
    assert ended.exit_code == 127
    assert f"/nonexistent/{MARK}" in ended.ranks[0].end.detail


def test_a_process_whose_name_the_kernel_has_cut(api, tmp_path):
    program = tmp_path / ("é" * 8)  # the kernel keeps 15 bytes
    shutil.copy(shutil.which("sleep"), program)
    job = api.submit(["sh", "-c", f"'{program}' 1000 > /dev/null 2>&1 &"])
    ended = api.wait(job)
    assert ended.exit_code == 0
    report = next(event.job_ended for event in api.watch(job) if event.HasField("job_ended"))
    assert report.strays_killed == 1


def test_muster_refuses_text_that_is_none_and_shows_words_that_are_none(launcherd):
    daemon = launcherd()
    environment = {**os.environ, "MUSTER_LAUNCHER": f"unix:{daemon.socket}"}

    def muster(*words):
        return subprocess.run([BIN / "muster", *words], env=environment, capture_output=True, timeout=60)

    refused = muster("submit", "--name", b"caf\xe9", "true")
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert refused.stderr.startswith(b"muster submit: --name: must be UTF-8 text")
    submitted = muster("submit", "sh", "-c", "sleep 1000", b"caf\xe9")
    assert submitted.returncode == 0, submitted
    job = submitted.stdout.decode().strip()
    listed = muster("jobs")
    assert listed.returncode == 0 and job in listed.stdout.decode() and f"caf{MARK}" in listed.stdout.decode()
    assert muster("status", "--json", job).returncode == 0
    assert muster("kill", "--now", job).returncode in (0, 2)
