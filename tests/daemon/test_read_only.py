"""A disk that turns read-only under a launcherd, as one with errors does: submissions are refused, what runs goes on, and
what was acknowledged is there for the launcherd that comes after the repair."""
import contextlib
import os
import pathlib
import shutil
import subprocess

import grpc
import pytest


class Disk:
    """An ext4 of its own, which the kernel turns read-only at its first error. `problem`: why there is none."""

    def __init__(self, directory):
        self.image = directory / "image"
        self.ground = directory / "ground"
        self.path = self.ground / "disk"
        self.ground.mkdir(mode=0o700)
        self.problem = self.why_not() or self.mount()
        if self.problem and self.ground.is_mount():
            self.unmount_all()

    def why_not(self):
        if os.geteuid() != 0:
            return "no file system can be mounted: run as root"
        if not shutil.which("mkfs.ext4"):
            return "mkfs.ext4 is not installed"
        with open(self.image, "wb") as image:
            image.truncate(32 << 20)
        made = subprocess.run(["mkfs.ext4", "-q", "-F", self.image], capture_output=True, text=True)
        if made.returncode:
            return made.stderr
        # Shared, so that what is unmounted here is gone in the mount namespaces of jobs as well.
        ground = ["mount", "-t", "tmpfs", "-o", "mode=0700", "tmpfs", self.ground]
        if subprocess.run(ground, capture_output=True).returncode:
            return "no file system can be mounted here"
        subprocess.run(["mount", "--make-shared", self.ground], check=True)
        self.path.mkdir(mode=0o700)
        return None

    def mount(self):
        mounted = subprocess.run(["mount", "-o", "loop,errors=remount-ro", self.image, self.path], capture_output=True,
                                 text=True)
        if mounted.returncode:
            return f"ext4 cannot be mounted: {mounted.stderr}"
        self.path.chmod(0o700)
        if self.trigger().exists():
            return None
        return "this kernel's ext4 has no trigger_fs_error"

    def trigger(self):
        device = subprocess.check_output(["findmnt", "-no", "SOURCE", self.path], text=True).strip()
        return pathlib.Path("/sys/fs/ext4") / pathlib.Path(device).name / "trigger_fs_error"

    def fail(self):
        self.trigger().write_text("1")
        with pytest.raises(OSError, match="Read-only"):
            (self.path / "x").touch()

    def unmount(self):
        subprocess.run(["umount", self.path], check=True)

    def unmount_all(self):
        subprocess.run(["umount", "-R", self.ground], check=True)

    def repair(self):
        self.unmount()
        assert subprocess.run(["e2fsck", "-fy", self.image], capture_output=True).returncode in (0, 1)  # 1: corrected
        assert self.mount() is None


@pytest.fixture
def disk(tmp_path):
    disk = Disk(tmp_path)
    if disk.problem:
        pytest.skip(disk.problem)
    yield disk
    disk.unmount_all()


@pytest.fixture
def daemons(disk, launcherd):
    """Of a state that lies there; they have ended before the disk goes."""
    with contextlib.ExitStack() as started:
        def start():
            daemon = launcherd(slots=2, directory=disk.path)
            started.callback(daemon.end)
            return daemon
        yield start


def refusal(api):
    with pytest.raises(grpc.RpcError) as error:
        api.submit(["true"])
    return error.value.code()


def test_a_disk_turns_read_only_under_launcherd(disk, daemons, tmp_path):
    daemon = daemons()
    api = daemon.client()
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    running = api.submit(["sh", "-c", f"read x < {gate}; exit 7"], size=2)
    api.until(running, "RUNNING")
    waiting = api.submit(["mkdir", str(tmp_path / "mark")], request_request_id="the-waiting-one")
    disk.fail()
    assert refusal(api) == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refusal(api) == grpc.StatusCode.RESOURCE_EXHAUSTED  # and not only the first time
    with pytest.raises(grpc.RpcError) as error:
        api.api.DrainHost(api.stubs.launcher.DrainHostRequest(host="localhost"), timeout=api.PATIENCE)
    assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (api.state(running), api.state(waiting)) == ("RUNNING", "QUEUED")
    daemon.end("KILL")

    disk.repair()
    api = daemons().client()
    assert (api.state(running), api.state(waiting)) == ("RUNNING", "QUEUED")
    again = api.request(["mkdir", str(tmp_path / "mark")], request_request_id="the-waiting-one")
    assert api.send(again) == waiting
    gate.write_text("after\n")
    assert api.wait(running).exit_code == 7
    assert api.wait(waiting).exit_code == 0  # once: mkdir fails the second time


def test_a_job_ends_while_the_disk_is_read_only(disk, daemons, tmp_path):
    daemon = daemons()
    api = daemon.client()
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    job = api.submit(["sh", "-c", f"echo before; read x < {gate}; echo after; mkdir {tmp_path}/over; exit 7"])
    api.until(job, "RUNNING")
    disk.fail()
    assert refusal(api) == grpc.StatusCode.RESOURCE_EXHAUSTED
    gate.write_text("on\n")
    while not (tmp_path / "over").exists():  # it runs on to its end, whatever can be written of that
        assert api.state(job) == "RUNNING"
    daemon.end("KILL")

    disk.repair()
    api = daemons().client()
    ended = api.wait(job)  # it is known, and not run again: mkdir would fail
    assert ended.ended.seconds > 0 and ended.id == job
    assert (ended.exit_code, api.state(job)) == (7, "FAILED"), ended
    chunks = list(api.api.Logs(api.stubs.launcher.LogsRequest(job=job), timeout=api.PATIENCE))
    lost = sum(chunk.lost_bytes for chunk in chunks)
    assert lost + len(b"".join(chunk.data for chunk in chunks)) == len("before\nafter\n"), chunks
    # Nothing is lost if launcherd was killed before it received the output: the agent sends it again.
    assert lost == 0 or f"{lost} bytes of the output of localhost are lost" in ended.reason
