"""The state directory: whose it is, and what happens when it takes nothing more."""
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile

import conftest
import grpc
import pytest


def test_a_second_launcherd_is_refused(launcherd, tmp_path):
    first = launcherd()
    second = launcherd(waits=False)
    assert second.process.wait(timeout=60) == 125
    line = second.line_with("is in use by launcherd with pid")
    assert str(first.process.pid) in line
    (tmp_path / "other").mkdir()
    other = launcherd("--listen", f"unix:{first.socket}", waits=False, listen=False, directory=tmp_path / "other")
    assert other.process.wait(timeout=60) == 125
    other.line_with("another launcherd listens at")
    assert first.client().wait(first.client().submit(["true"])).exit_code == 0


def test_its_files_are_its_owners_alone(launcherd):
    daemon = launcherd()
    api = daemon.client()
    api.wait(api.submit(["echo", "hello"]))
    for path in [daemon.state, *daemon.state.rglob("*"), daemon.socket.parent]:
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("signal", ["TERM", "KILL"])
def test_jobs_that_wait_stay_for_the_next_launcherd(launcherd, signal, tmp_path):
    daemon = launcherd(slots=2)
    api = daemon.client()
    blocker = api.submit(["sleep", "1000"], size=2, on_launcher_loss="ON_LAUNCHER_LOSS_KILL")
    api.until(blocker, "RUNNING")
    marks = [tmp_path / f"mark-{number}" for number in range(3)]
    jobs = [api.submit(["mkdir", str(mark)], request_request_id=mark.name, request_priority=number)
            for number, mark in enumerate(marks)]
    daemon.end(signal)
    api = launcherd(slots=2).client()
    for job, mark in zip(jobs, marks):
        assert api.send(api.request(["mkdir", str(mark)], request_request_id=mark.name,
                                    request_priority=int(mark.name[-1]))) == job
        assert api.wait(job).exit_code == 0


def test_an_ended_job_is_forgotten_when_its_time_is_over(launcherd):
    daemon = launcherd()
    api = daemon.client()
    kept = api.submit(["true"])
    gone = api.submit(["true"], request_retention={"seconds": 0})
    api.wait(kept)
    api.wait(gone)
    assert (daemon.state / "jobs" / gone).is_dir()
    daemon.end()
    api = launcherd().client()  # looks at once
    listed = {kept, gone}
    while listed != {kept}:  # the limit of the test's time is that of the loop
        listed = {job.id for job in api.api.ListJobs(api.stubs.launcher.ListJobsRequest(all=True)).jobs}


class SmallDisk:
    def __init__(self, path):
        self.path = path
        path.mkdir(mode=0o700)
        self.is_mounted = os.geteuid() == 0 and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "tmpfs", path], check=False).returncode == 0

    def remount(self, options):
        subprocess.run(["mount", "-o", f"remount,{options}", self.path], check=True)

    def fill(self):
        with open(self.path / "ballast", "wb", buffering=0) as ballast:
            for size in (65536, 4096, 1):
                try:
                    while ballast.write(b"x" * size):
                        pass
                except OSError:
                    pass


@pytest.fixture
def open_folder():
    """A folder that every user may enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


def test_its_memory_is_closed_to_other_processes_of_its_user(open_folder):
    if os.geteuid() != 0:
        pytest.skip("starting a program as another user needs root")
    nobody = 65534
    for program in ("launcherd", "muster-agent"):
        shutil.copy(conftest.BIN / program, open_folder / program)
    home = open_folder / "home"
    home.mkdir(mode=0o700)
    os.chown(home, nobody, nobody)
    words = [open_folder / "launcherd", "-H", "localhost:1", "--state", home / "state", "--listen",
             f"unix:{home}/sockets/launcherd.sock"]
    with subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=home,
                          user=nobody, group=nobody, extra_groups=[],
                          env={"PATH": "/usr/bin:/bin", "HOME": str(home), "MUSTER_TMPDIR": str(home)}) as daemon:
        lines = [daemon.stderr.readline()]
        assert "serving" in lines[0], lines + daemon.stderr.readlines()
        # The kernel gives these files to root where a process may not be looked into.
        assert os.stat(f"/proc/{daemon.pid}/environ").st_uid == 0
        daemon.terminate()
        assert daemon.wait(timeout=conftest.PATIENCE) == 0


def test_output_of_a_job_without_a_record_is_removed(launcherd):
    daemon = launcherd()
    api = daemon.client()
    kept = api.submit(["true"])
    api.wait(kept)
    daemon.end()
    # As when a launcherd is killed between forgetting a job and removing its output.
    left = daemon.state / "jobs/abcdefgh"
    left.mkdir()
    (left / "output").write_text("of nobody")
    (daemon.state / "jobs/notes").mkdir()  # not a job's
    api = launcherd().client()
    while left.exists():  # the limit of the test's time is that of the loop
        api.get(kept)
    assert (daemon.state / "jobs" / kept / "output").exists()
    assert (daemon.state / "jobs/notes").exists()


@pytest.fixture
def disk(tmp_path):
    disk = SmallDisk(tmp_path / "disk")
    if not disk.is_mounted:
        pytest.skip("a small file system cannot be mounted: run as root")
    yield disk


@pytest.fixture
def on_disk(disk, launcherd):
    """A launcherd whose state lies there; it has ended before the disk goes."""
    daemon = launcherd(directory=disk.path)
    yield daemon
    daemon.end()
    subprocess.run(["umount", disk.path], check=True)


def is_refused(api):
    with pytest.raises(grpc.RpcError) as error:
        api.submit(["true"], role="x" * 100, request_labels=[{"name": "l" * 256}] * 60)
    return error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_full_disk_refuses_jobs_and_keeps_those_that_run(disk, on_disk, tmp_path):
    api = on_disk.client()
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    job = api.submit(["cat", str(gate)])
    api.until(job, "RUNNING")
    disk.fill()
    assert is_refused(api)
    assert api.state(job) == "RUNNING"
    gate.write_text("on\n")
    (disk.path / "ballast").unlink()
    assert api.wait(job).exit_code == 0
    assert api.wait(api.submit(["true"])).exit_code == 0


def holding_slots(api, gate, slots):
    """A job that has them until something is written there."""
    return api.submit(["sh", "-c", f"test $MUSTER_RANK != 0 || read x < {gate}"], size=slots)


def submitted(submit):
    """Its job, also where launcherd has not seen yet that its disk has room again; the test's time is the limit."""
    while True:
        try:
            return submit()
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error


def jobs_whose_starts_wait(disk, daemon, gate, slots, submit):
    """submit(attempt)'s jobs, which wait for these slots. A start may fit into what the database has of a full disk:
    then others."""
    api = daemon.client()
    for attempt in range(30):
        api.until(submitted(lambda: holding_slots(api, gate, slots)), "RUNNING")
        jobs = submitted(lambda: submit(attempt))
        disk.fill()
        gate.write_text("on\n")
        while any(api.state(job) == "QUEUED" and not api.get(job).hosts for job in jobs):
            pass
        if all(api.state(job) == "QUEUED" for _ in range(200) for job in jobs):
            return jobs
        (disk.path / "ballast").unlink()
        for job in jobs:
            api.wait(job)
    raise AssertionError("every start fitted on the full disk")


def test_launcherd_ends_while_a_start_waits_for_a_full_disk(disk, on_disk, launcherd, tmp_path):
    api = on_disk.client()
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    jobs = jobs_whose_starts_wait(disk, on_disk, gate, 4, lambda attempt: [
        api.submit(["mkdir", str(tmp_path / f"{loss}-{attempt}")], on_launcher_loss=f"ON_LAUNCHER_LOSS_{loss}", size=1)
        for loss in ("KILL", "HOLD")])
    assert on_disk.end() == 0
    (disk.path / "ballast").unlink()
    after = launcherd(directory=disk.path)
    assert all(after.client().wait(job).exit_code == 0 for job in jobs)  # once: mkdir fails the second time
    after.end()


def test_no_job_starts_while_launcherd_ends(disk, on_disk, launcherd, tmp_path):
    """Whose launcherd would end it, and which started after all others had been stopped, was waited for to its end."""
    api = on_disk.client()
    gates = [tmp_path / "gate", tmp_path / "last-gate"]
    for gate in gates:
        os.mkfifo(gate)
    stopped = tmp_path / "stopped"
    script = f"trap 'mkdir {stopped}; read x < {gates[1]}; exit 0' TERM; while :; do sleep 0.1; done"
    ending = api.submit(["sh", "-c", script], kill_grace={"seconds": 600}, on_launcher_loss="ON_LAUNCHER_LOSS_KILL")
    api.until(ending, "RUNNING")
    late, = jobs_whose_starts_wait(disk, on_disk, gates[0], 3, lambda _: [
        api.submit(["true"], size=1, on_launcher_loss="ON_LAUNCHER_LOSS_KILL")])
    on_disk.process.terminate()
    while not stopped.exists():
        assert on_disk.process.poll() is None
    (disk.path / "ballast").unlink()
    while api.state(late) == "QUEUED":
        pass
    for _ in range(100):  # time enough for it to be told to agents
        assert api.state(late) == "STARTING"
    gates[1].write_text("on\n")
    assert on_disk.end() == 0
    after = launcherd(directory=disk.path)
    assert after.client().wait(late).exit_code == 0
    after.end()


def test_a_read_only_disk_is_told_at_the_start(disk, launcherd):
    disk.remount("ro")
    try:
        daemon = launcherd(waits=False, directory=disk.path)
        assert daemon.process.wait(timeout=60) == 125
        daemon.line_with("Read-only file system")
    finally:
        subprocess.run(["umount", disk.path], check=True)
