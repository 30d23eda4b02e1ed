"""muster exec, shell and cp: commands beside the ranks of a running job."""
import fcntl
import hashlib
import os
import pathlib
import pty
import queue
import random
import re
import select
import signal
import struct
import subprocess
import termios
import time

import grpc
import pytest
from cluster.testing import eventually
from conftest import BIN

PATIENCE = 60


def environment_for(daemon, **more):
    return {**os.environ, "MUSTER_LAUNCHER": f"unix:{daemon.socket}", **more}


def muster(daemon, *words, **options):
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": PATIENCE, **options}
    return subprocess.run([BIN / "muster", *words], env=environment_for(daemon), **options)


def start(daemon, *words, **options):
    return subprocess.Popen([BIN / "muster", *words], env=environment_for(daemon),
                            stdin=options.pop("stdin", subprocess.PIPE), stdout=options.pop("stdout", subprocess.PIPE),
                            stderr=options.pop("stderr", subprocess.PIPE), **options)


def running_job(daemon, command=("sleep", "1000"), **fields):
    api = daemon.client()
    job = api.submit(list(command), **fields)
    api.until(job, "RUNNING")
    return job


def until(condition):
    assert eventually(condition, PATIENCE)


def marked(job):
    """The processes of the job on this host, by their environment."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"MUSTER_JOB_ID={job}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            except OSError:
                pass
    return found


def is_gone(job, text):
    return not any(text in command for command in marked(job).values())


class Stream:
    """A call of Exec by the stubs."""

    def __init__(self, api, job, command=(), **fields):
        self.api, self.requests = api, queue.Queue()
        fields = {"job": job, "command": [os.fsencode(word) for word in command], **fields}
        self.send(**fields)
        self.events = api.api.Exec(iter(self.requests.get, None), timeout=PATIENCE)

    def send(self, **fields):
        self.requests.put(self.api.stubs.launcher.ExecRequest(**fields))

    def until(self, kind):
        for event in self.events:
            if event.WhichOneof("event") == kind:
                return event
        raise AssertionError(f"no {kind}")

    def close(self):
        self.requests.put(None)


@pytest.fixture
def daemon(launcherd):
    return launcherd()


def test_a_command_finds_what_its_rank_has(daemon, tmp_path):
    script = "env | sort > env.$MUSTER_RANK; cat /proc/self/cgroup > cgroup.$MUSTER_RANK; " \
             "umask > umask.$MUSTER_RANK; taskset -p $$ | sed s/.*:// > cpus.$MUSTER_RANK; " \
             "readlink /proc/self/ns/pid > ns.$MUSTER_RANK; " \
             "touch ready.$MUSTER_RANK; exec sleep 1000"
    job = running_job(daemon, ["sh", "-c", script], size=2, working_directory=os.fsencode(tmp_path), umask=0o027,
                      environment={"MY_OWN": "a b\nc", "PATH": "/usr/bin:/bin"})
    until(lambda: (tmp_path / "ready.1").exists())
    for name, command in {"env": ["sh", "-c", "env | sort"], "cgroup": ["cat", "/proc/self/cgroup"],
                          "umask": ["sh", "-c", "umask"], "cpus": ["sh", "-c", "taskset -p $$ | sed s/.*://"],
                          "ns": ["readlink", "/proc/self/ns/pid"]}.items():
        result = muster(daemon, "exec", job, "-r", "1", "--", *command)
        assert result.returncode == 0, result
        ours, its = result.stdout.decode(), (tmp_path / f"{name}.1").read_text()
        if name == "env":
            ours, its = ([line for line in text.splitlines() if not line.startswith(("_=", "SHLVL="))]
                         for text in (ours, its))
        assert ours == its, name
    assert muster(daemon, "exec", job, "-r", "1", "--", "pwd").stdout.decode().strip() == str(tmp_path)


def test_the_exit_code_is_that_of_the_command(daemon):
    job = running_job(daemon)
    assert muster(daemon, "exec", job, "--", "true").returncode == 0
    assert muster(daemon, "exec", job, "--", "sh", "-c", "exit 42").returncode == 42
    assert muster(daemon, "exec", job, "--", "sh", "-c", "kill -USR1 $$").returncode == 128 + signal.SIGUSR1
    missing = muster(daemon, "exec", job, "--", "no-such-program")
    assert missing.returncode == 127 and b"no-such-program" in missing.stderr, missing
    denied = muster(daemon, "exec", job, "--", "/etc/passwd")
    assert denied.returncode == 126, denied
    both = muster(daemon, "exec", job, "--", "sh", "-c", "echo out; echo err >&2")
    assert (both.stdout, both.stderr) == (b"out\n", b"err\n")


def test_ten_megabytes_go_there_and_back(daemon):
    job = running_job(daemon)
    content = random.Random(5).randbytes(10_000_000)
    result = muster(daemon, "exec", job, "--", "cat", stdin=None, input=content)
    assert result.returncode == 0, result.stderr
    assert hashlib.sha256(result.stdout).digest() == hashlib.sha256(content).digest()


def test_a_command_that_reads_nothing_does_not_hold_its_signals_back(daemon, tmp_path):
    job = running_job(daemon)
    (tmp_path / "large").write_bytes(b"x" * 1_000_000)
    with open(tmp_path / "large", "rb") as source, \
            start(daemon, "exec", job, "--", "sleep", "977", stdin=source) as client:
        until(lambda: not is_gone(job, "sleep 977"))
        client.send_signal(signal.SIGINT)
        assert client.wait(PATIENCE) == 128 + signal.SIGINT
    until(lambda: is_gone(job, "sleep 977"))


def memory_kib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1))


def test_a_slow_reader_slows_the_command_down(daemon):
    """launcherd and the agent hold no more than the windows."""
    job = running_job(daemon)
    script = "dd if=/dev/zero bs=1M count=200 2>/dev/null; echo done >&2"
    with start(daemon, "exec", job, "--", "sh", "-c", script) as client:
        until(lambda: not is_gone(job, "dd if=/dev/zero"))
        before = memory_kib(daemon.process.pid)
        assert select.select([client.stderr], [], [], 2)[0] == [], "200 MB went somewhere"
        assert memory_kib(daemon.process.pid) - before < 20_000
        assert len(client.stdout.read()) == 200 << 20
        assert client.stderr.read() == b"done\n"


class Terminal:
    """muster on a terminal of its own."""

    def __init__(self, daemon, *words, rows=37, columns=101):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.execve(BIN / "muster", ["muster", *words], environment_for(daemon, TERM="xterm"))
        self.resize(rows, columns)
        self.modes = termios.tcgetattr(self.master)
        self.text = b""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text)

    def until(self, text):
        deadline = time.monotonic() + PATIENCE
        while text not in self.text:
            assert time.monotonic() < deadline, self.text
            if select.select([self.master], [], [], 0.1)[0]:
                self.text += os.read(self.master, 4096)
        before, self.text = self.text.split(text, 1)
        return before

    def wait(self):
        while True:
            try:
                self.text += os.read(self.master, 4096)
            except OSError:
                break
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_a_shell_has_a_terminal(daemon):
    job = running_job(daemon)
    terminal = Terminal(daemon, "shell", job)
    terminal.type(b"stty size; echo $TERM-$((1+1)); tty\n")
    terminal.until(b"37 101")
    terminal.until(b"xterm-2")
    terminal.until(b"/dev/pts/")
    terminal.resize(20, 60)
    until(lambda: terminal_size(terminal) == b"20 60")
    terminal.type(b"sleep 976\n")
    until(lambda: not is_gone(job, "sleep 976"))
    terminal.type(b"\x03")  # Ctrl-C ends the program, not the shell
    until(lambda: is_gone(job, "sleep 976"))
    terminal.type(b"exit 9\n")
    assert terminal.wait() == 9


def terminal_size(terminal):
    terminal.type(b"echo [$(stty size)]\n")
    terminal.until(b"echo [")
    terminal.until(b"[")
    return terminal.until(b"]")


def test_a_local_terminal_gets_its_mode_back(daemon):
    job = running_job(daemon)
    for end in (signal.SIGTERM, signal.SIGHUP):
        terminal = Terminal(daemon, "exec", job, "-t", "--", "sleep", "975")
        until(lambda: not is_gone(job, "sleep 975"))
        until(lambda: termios.tcgetattr(terminal.master)[3] & termios.ICANON == 0)
        slave = os.open(os.readlink(f"/proc/{terminal.pid}/fd/0"), os.O_RDWR | os.O_NOCTTY)
        os.kill(terminal.pid, end)
        until(lambda: termios.tcgetattr(slave)[3] == terminal.modes[3])
        os.close(slave)
        assert terminal.wait() == 128 + end
        until(lambda: is_gone(job, "sleep 975"))


def test_a_shell_reads_commands_from_a_pipe(daemon):
    job = running_job(daemon)
    result = muster(daemon, "shell", job, stdin=None, input=b"echo $MUSTER_JOB_ID; exit 3\n")
    assert (result.returncode, result.stdout.decode()) == (3, f"{job}\n"), result


def test_nothing_is_left_of_a_killed_job(daemon):
    job = running_job(daemon)
    with start(daemon, "exec", job, "--", "sh", "-c", "trap '' TERM HUP; sleep 974 & sleep 974; sleep 974") as client:
        until(lambda: not is_gone(job, "sleep 974"))
        daemon.client().kill(job, at_once=True)
        assert client.wait(PATIENCE) == 128 + signal.SIGKILL
        assert b"while the command ran" in client.stderr.read()
    daemon.client().wait(job)
    assert marked(job) == {}


def test_a_rank_that_ends_ends_its_commands(daemon, tmp_path):
    job = running_job(daemon, ["sh", "-c", "while [ ! -e go.$MUSTER_RANK ]; do sleep 0.05; done; exit 0"], size=2,
                      working_directory=os.fsencode(tmp_path))
    with start(daemon, "exec", job, "-r", "1", "--", "sleep", "973") as client, \
            start(daemon, "exec", job, "-r", "0", "--", "sleep", "972") as other:
        until(lambda: not (is_gone(job, "sleep 973") or is_gone(job, "sleep 972")))
        (tmp_path / "go.1").touch()
        assert client.wait(PATIENCE) == 128 + signal.SIGHUP
        assert client.stderr.read() == b"muster exec: rank 1 ended (exit code 0) while the command ran\n"
        assert other.poll() is None, "rank 0 still runs"
        late = muster(daemon, "exec", job, "-r", "1", "--", "true")
        assert late.returncode == 2 and b"rank 1 has ended" in late.stderr, late
        (tmp_path / "go.0").touch()
        assert other.wait(PATIENCE) > 128
        assert b"rank 0 ended (exit code 0) while the command ran" in other.stderr.read()
    ended = daemon.client().wait(job)
    assert ended.exit_code == 0, "commands do not change how a job ends"
    over = muster(daemon, "exec", job, "-r", "0", "--", "true")
    assert over.returncode == 2 and b"has ended" in over.stderr, over


def test_a_killed_client_ends_its_command(daemon):
    job = running_job(daemon)
    with start(daemon, "exec", job, "--", "sleep", "971") as client:
        until(lambda: not is_gone(job, "sleep 971"))
        client.kill()
    until(lambda: is_gone(job, "sleep 971"))
    assert daemon.client().state(job) == "RUNNING"


def test_a_killed_launcherd_leaves_no_command(launcherd):
    daemon = launcherd()
    job = running_job(daemon)
    with start(daemon, "exec", job, "--", "sleep", "970") as client:
        until(lambda: not is_gone(job, "sleep 970"))
        daemon.end("KILL")
        assert client.wait(PATIENCE) == 125
    until(lambda: is_gone(job, "sleep 970"))
    again = launcherd()
    assert again.client().state(job) == "RUNNING"
    # The host reports its ranks to the new launcherd first.
    until(lambda: muster(again, "exec", job, "--", "echo", "hello").stdout == b"hello\n")


def test_the_next_launcherd_ends_commands_at_once(launcherd):
    daemon = launcherd()
    job = running_job(daemon)
    with start(daemon, "exec", job, "--", "sleep", "969") as client:
        until(lambda: not is_gone(job, "sleep 969"))
        daemon.end("KILL")
        client.wait(PATIENCE)
    again = launcherd()
    until(lambda: is_gone(job, "sleep 969"))
    assert again.client().state(job) == "RUNNING"


def test_background_processes_belong_to_the_job(daemon):
    job = running_job(daemon)
    assert muster(daemon, "exec", job, "--", "sh", "-c", "sleep 968 >/dev/null 2>&1 </dev/null &").returncode == 0
    assert not is_gone(job, "sleep 968")
    daemon.client().kill(job)
    daemon.client().wait(job)
    assert marked(job) == {}


def test_signals_for_ranks_do_not_reach_commands(daemon):
    job = running_job(daemon, ["sh", "-c", "trap 'echo got' USR1; while :; do sleep 0.1; done"])
    stream = Stream(daemon.client(), job, ["sleep", "967"])
    stream.until("begun")
    api = daemon.client()
    api.api.Signal(api.stubs.launcher.SignalRequest(job=job, signal=signal.SIGUSR1), timeout=PATIENCE)
    until(lambda: b"got" in api.output(job))
    assert not is_gone(job, "sleep 967")
    stream.send(signal=signal.SIGUSR1)
    assert stream.until("ended").ended.signal == signal.SIGUSR1
    stream.close()


TOUCH = [b"touch", b"marker"]


@pytest.mark.parametrize(("field", "fields"), [
    ("command", {}), ("command", {"command": [b""]}), ("command", {"command": [b"a\0b"]}),
    ("command", {"command": [b"x"] * 5000}), ("command", {"command": [b"x" * 200_000]}),
    ("command", {"command": TOUCH, "shell": True}), ("rank", {"command": TOUCH}),
    ("rank", {"command": TOUCH, "rank": 2}), ("rank", {"command": TOUCH, "rank": -1}),
    ("term", {"command": TOUCH, "rank": 0, "terminal": True, "term": b"../../x"}),
    ("window_size", {"command": TOUCH, "rank": 0, "terminal": True, "window_size": {"rows": -1, "columns": 5}}),
    ("signal", {"command": TOUCH, "rank": 0, "signal": 1000}),
    ("input", {"command": TOUCH, "rank": 0, "input": b"x" * 100_000})])
def test_a_refusal_names_the_field(daemon, tmp_path, field, fields):
    job = running_job(daemon, size=2, working_directory=os.fsencode(tmp_path))
    api = daemon.client()
    request = api.stubs.launcher.ExecRequest(job=job, **fields)
    with pytest.raises(grpc.RpcError) as refused:
        list(api.api.Exec(iter([request]), timeout=PATIENCE))
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.details().startswith(f"{field}: "), refused.value.details()
    # A command that was started in spite of that would be there before this one.
    assert muster(daemon, "exec", job, "-r", "0", "--", "touch", "later").returncode == 0
    assert [path.name for path in tmp_path.glob("[ml]*er")] == ["later"]


@pytest.mark.parametrize(("field", "fields"), [
    ("job", {"job": "k7"}), ("rank", {"rank": 0}), ("command", {"command": [b"ps"]}), ("shell", {"shell": True}),
    ("terminal", {"terminal": True}), ("term", {"term": b"x"}), ("signal", {"signal": -1})])
def test_a_later_request_that_is_wrong_ends_the_command(daemon, field, fields):
    job = running_job(daemon)
    stream = Stream(daemon.client(), job, ["sleep", "966"])
    stream.until("begun")
    stream.send(**fields)
    with pytest.raises(grpc.RpcError) as refused:
        list(stream.events)
    assert refused.value.details().startswith(f"{field}: ")
    until(lambda: is_gone(job, "sleep 966"))
    stream.close()


def test_input_beyond_the_window_is_refused(daemon):
    job = running_job(daemon)
    stream = Stream(daemon.client(), job, ["sleep", "965"])
    stream.until("begun")
    for _ in range(10):
        stream.send(input=b"x" * 60_000)
    with pytest.raises(grpc.RpcError) as refused:
        list(stream.events)
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    until(lambda: is_gone(job, "sleep 965"))
    stream.close()


def test_jobs_that_are_not_there(daemon):
    api = daemon.client()
    for job in ("", "aaaaaaaa", "A" * 1000, "%s", "../.."):
        request = api.stubs.launcher.ExecRequest(job=job, command=[b"ps"])
        with pytest.raises(grpc.RpcError) as refused:
            list(api.api.Exec(iter([request]), timeout=PATIENCE))
        assert refused.value.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT)
    with pytest.raises(grpc.RpcError) as refused:
        list(api.api.Exec(iter([]), timeout=PATIENCE))
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_random_bytes(daemon):
    chance = random.Random(3)
    api = daemon.client()
    call = api.channel.stream_stream("/muster.v1.Launcher/Exec")
    for _ in range(100):
        content = [bytes(chance.randrange(256) for _ in range(chance.randrange(64))) for _ in range(3)]
        try:
            list(call(iter(content), timeout=PATIENCE))
        except grpc.RpcError as error:
            assert error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    assert api.api.GetCapabilities(api.stubs.launcher.GetCapabilitiesRequest(), timeout=PATIENCE).pid > 0


def test_a_waiting_job_has_no_ranks(launcherd):
    daemon = launcherd(slots=1)
    running_job(daemon)
    waiting = daemon.client().submit(["sleep", "1000"])
    result = muster(daemon, "exec", waiting, "--", "true")
    assert result.returncode == 2 and waiting.encode() in result.stderr, result


def test_mistakes_on_the_command_line(daemon):
    job = running_job(daemon, size=2)
    for words, says in ((["exec", job, "--", "ps"], "--rank"), (["exec", job, "-r", "7", "--", "ps"], "unknown rank 7"),
                        (["exec", job, "ps"], "behind --"),
                        (["shell", job, "-r", "x"], "'x' is not the number of a rank"),
                        (["exec", "zzzzzzzz", "--", "ps"], "zzzzzzzz")):
        result = muster(daemon, *words)
        assert result.returncode == 2 and says in result.stderr.decode(), result


def test_many_commands_at_the_same_time(daemon):
    job = running_job(daemon)
    clients = [start(daemon, "exec", job, "--", "sh", "-c", f"cat; exit {number}") for number in range(12)]
    for number, client in enumerate(clients):
        out, _ = client.communicate(b"x" * 100_000, timeout=PATIENCE)
        assert (client.returncode, len(out)) == (number, 100_000)


def test_files_are_copied_both_ways(daemon, tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    job = running_job(daemon, working_directory=os.fsencode(there))
    content = random.Random(6).randbytes(3_000_001)
    (here / "source").write_bytes(content)
    (here / "source").chmod(0o750)
    assert muster(daemon, "cp", here / "source", f"{job}:0:target").returncode == 0
    assert (there / "target").read_bytes() == content and (there / "target").stat().st_mode & 0o777 == 0o750
    assert muster(daemon, "cp", f"{job}::target", here / "back").returncode == 0
    assert (here / "back").read_bytes() == content and (here / "back").stat().st_mode & 0o777 == 0o750
    assert muster(daemon, "cp", here / "source", f"{job}:0:.").returncode == 0
    assert (there / "source").read_bytes() == content
    (here / "folder").mkdir()
    assert muster(daemon, "cp", f"{job}:0:{there}/target", here / "folder").returncode == 0
    assert (here / "folder/target").read_bytes() == content
    (here / "empty").touch()
    assert muster(daemon, "cp", here / "empty", f"{job}:0:empty").returncode == 0
    assert (there / "empty").read_bytes() == b""
    for name in ("a b", "-rf", "q'$(x)\"", "new\nline"):
        (here / name).write_text(name)
        assert muster(daemon, "cp", f"./{name}", f"{job}:0:{name}", cwd=here).returncode == 0, name
        assert (there / name).read_text() == name
        assert muster(daemon, "cp", f"{job}:0:{name}", "back", cwd=here).returncode == 0, name
        assert (here / "back").read_text() == name
    assert [path.name for folder in (there, here) for path in folder.iterdir() if ".muster-cp" in path.name] == []


def test_folders_are_copied_both_ways(daemon, tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    (here / "tree/sub").mkdir(parents=True)
    (here / "tree/sub/file").write_text("content")
    (here / "tree/link").symlink_to("sub/file")
    (here / "tree/sub").chmod(0o711)
    job = running_job(daemon, working_directory=os.fsencode(there))
    refused = muster(daemon, "cp", here / "tree", f"{job}:0:tree")
    assert refused.returncode == 2 and b"add -r" in refused.stderr
    assert muster(daemon, "cp", "-r", here / "tree", f"{job}:0:tree").returncode == 0
    assert (there / "tree/sub/file").read_text() == "content" and os.readlink(there / "tree/link") == "sub/file"
    assert (there / "tree/sub").stat().st_mode & 0o777 == 0o711
    again = muster(daemon, "cp", "-r", here / "tree", f"{job}:0:.")
    assert again.returncode == 1 and b"exists already" in again.stderr, again
    assert muster(daemon, "cp", "-r", here / "tree", f"{job}:0:tree").returncode == 0, "into the folder"
    assert (there / "tree/tree/sub/file").exists()
    refused = muster(daemon, "cp", f"{job}:0:tree", here / "back")
    assert refused.returncode == 1 and b"add -r" in refused.stderr, refused
    assert muster(daemon, "cp", "-r", f"{job}:0:tree", here / "back").returncode == 0
    assert (here / "back/tree/sub/file").read_text() == "content"
    assert [path.name for folder in (there, here) for path in folder.iterdir() if ".muster-cp" in path.name] == []


def test_copies_that_fail_change_nothing(daemon, tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    (here / "old").write_text("old")
    job = running_job(daemon, working_directory=os.fsencode(there))
    for words, says in (([f"{job}:0:nothing", here / "old"], "nothing: no such file"),
                        ([f"{job}:0:/dev/null", here / "old"], "no regular file"),
                        ([here / "nothing", f"{job}:0:x"], "No such file"),
                        ([here / "old", f"{job}:0:no/such/folder/x"], "no such folder"),
                        ([f"{job}:0:nothing", here / "no/such/x"], "nothing: no such file"),
                        ([here / "old", f"{job}:9:x"], "unknown rank 9"), ([here / "old", f"{job}:x:x"], "'x'")):
        result = muster(daemon, "cp", *words)
        assert result.returncode in (1, 2) and says in result.stderr.decode(), result
    assert (here / "old").read_text() == "old"
    assert list(there.iterdir()) == [] and [path.name for path in here.iterdir()] == ["old"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_disk_keeps_the_old_file(daemon, tmp_path):
    small, here = tmp_path / "small", tmp_path / "here"
    small.mkdir()
    here.mkdir()
    (here / "large").write_bytes(b"x" * 3_000_000)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], check=True)
    try:
        (small / "target").write_text("old")
        job = running_job(daemon, working_directory=os.fsencode(here))
        up = muster(daemon, "cp", here / "large", f"{job}:0:{small}/target")
        assert up.returncode == 1 and b"No space left" in up.stderr, up
        down = muster(daemon, "cp", f"{job}:0:large", small / "target")
        assert down.returncode == 1 and b"No space left" in down.stderr, down
        assert (small / "target").read_text() == "old"
        assert [path.name for path in small.iterdir()] == ["target"]
    finally:
        subprocess.run(["umount", small], check=True)


def test_an_interrupted_copy_leaves_no_part(daemon, tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    job = running_job(daemon, working_directory=os.fsencode(there))
    with open(tmp_path / "large", "wb") as large:
        large.truncate(4 << 30)
    with start(daemon, "cp", tmp_path / "large", f"{job}:0:target") as client:
        until(lambda: list(there.glob(".muster-cp.*")))
        client.kill()
    until(lambda: list(there.iterdir()) == [])
    with start(daemon, "cp", f"{job}:0:{tmp_path}/large", tmp_path / "copy") as client:
        until(lambda: list(tmp_path.glob(".muster-cp.*")))
        client.send_signal(signal.SIGINT)  # ends the host's program
        assert client.wait(PATIENCE) == 1
    assert not (tmp_path / "copy").exists() and list(tmp_path.glob(".muster-cp.*")) == []


def test_a_third_interrupt_ends_muster_itself(daemon):
    job = running_job(daemon)
    script = "trap 'echo got' INT; echo up; while :; do sleep 0.1; done"
    with start(daemon, "exec", job, "--", "sh", "-c", script) as client:
        assert client.stdout.readline() == b"up\n"
        for _ in range(2):
            client.send_signal(signal.SIGINT)
            assert client.stdout.readline() == b"got\n"
        client.send_signal(signal.SIGINT)
        assert client.wait(PATIENCE) == 128 + signal.SIGINT
    until(lambda: is_gone(job, "echo got"))


def until_ended_by_signals(client):
    """Signals of one kind merge, so there is no telling when the second one has arrived."""
    def is_over():
        client.send_signal(signal.SIGTERM)
        return client.poll() is not None
    until(is_over)


def test_output_that_nobody_reads_does_not_hold_muster_back(daemon):
    job = running_job(daemon)
    with start(daemon, "exec", job, "--", "sh", "-c", "trap '' TERM; exec yes sleep-964") as client:
        assert client.stdout.read(1) == b"s"
        until_ended_by_signals(client)
        assert client.returncode == 128 + signal.SIGTERM
    until(lambda: is_gone(job, "sleep-964"))


def test_a_launcherd_that_is_stopped_does_not_hold_muster_back(daemon):
    job = running_job(daemon)
    with start(daemon, "exec", job, "--", "cat") as client:
        client.stdin.write(b"x")
        client.stdin.flush()
        assert client.stdout.read(1) == b"x"
        os.kill(daemon.process.pid, signal.SIGSTOP)
        try:
            os.write(client.stdin.fileno(), b"y" * 60_000)
            until_ended_by_signals(client)
            assert client.returncode == 128 + signal.SIGTERM
        finally:
            os.kill(daemon.process.pid, signal.SIGCONT)


def test_a_process_that_keeps_writing_does_not_hold_the_end_back(daemon):
    job = running_job(daemon)
    result = muster(daemon, "exec", job, "--", "sh", "-c", "yes sleep-963 & exit 4", capture_output=False,
                    stdout=subprocess.DEVNULL)
    assert result.returncode == 4
    until(lambda: is_gone(job, "sleep-963"))


def test_a_folder_that_cannot_be_packed_leaves_no_part(daemon, tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/file").write_text("content")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/tar").write_text("#!/bin/sh\nPATH=/usr/bin:/bin tar \"$@\"\nexit 3\n")
    (tmp_path / "bin/tar").chmod(0o755)
    job = running_job(daemon, working_directory=os.fsencode(there))
    copy = subprocess.run([BIN / "muster", "cp", "-r", tmp_path / "tree", f"{job}:0:tree"], timeout=PATIENCE,
                          env=environment_for(daemon, PATH=f"{tmp_path}/bin:/usr/bin:/bin"), capture_output=True)
    assert copy.returncode == 1 and b"tar failed here with exit code 3" in copy.stderr, copy
    assert list(there.iterdir()) == []


def test_files_in_proc_are_copied(daemon, tmp_path):
    job = running_job(daemon)
    assert muster(daemon, "cp", f"{job}:0:/proc/version", tmp_path / "version").returncode == 0
    assert (tmp_path / "version").read_bytes() == pathlib.Path("/proc/version").read_bytes()
    refused = muster(daemon, "cp", "/proc/version", f"{job}:0:{tmp_path}/up")
    assert refused.returncode == 1 and b"does not know its size" in refused.stderr, refused
    assert [path.name for path in tmp_path.glob("*up*")] == []


def test_ranks_have_a_table_of_all(daemon, tmp_path):
    job = running_job(daemon, ["sh", "-c", 'cat "$MUSTER_RANK_TABLE" > table.$MUSTER_RANK; exec sleep 1000'], size=3,
                      working_directory=os.fsencode(tmp_path))
    until(lambda: (tmp_path / "table.2").exists() and (tmp_path / "table.2").read_text().count("\n") == 4)
    lines = [line.split("\t") for line in (tmp_path / "table.2").read_text().splitlines()]
    assert lines[0] == ["rank", "local_rank", "host", "address", "cpus"]
    assert [line[:3] for line in lines[1:]] == [[str(rank), str(rank), "localhost"] for rank in range(3)]
    assert all(line[3] and int(line[4]) >= 0 for line in lines[1:])
    shown = muster(daemon, "exec", job, "-r", "0", "--", "sh", "-c", 'cat "$MUSTER_RANK_TABLE"')
    assert shown.stdout == (tmp_path / "table.2").read_bytes()


def test_foreground_jobs_have_commands_too(tmp_path):
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "run"), "MUSTER_TMPDIR": str(tmp_path)}
    environment.pop("MUSTER_LAUNCHER", None)
    (tmp_path / "run").mkdir(mode=0o700)
    command = [BIN / "hvdrun", "-np", "2", "sh", "-c", "echo up; exec sleep 1000"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as hvdrun:
        try:
            assert b"up" in hvdrun.stdout.readline() and b"up" in hvdrun.stdout.readline()
            ask = {"env": environment, "capture_output": True, "timeout": PATIENCE, "stdin": subprocess.DEVNULL}
            result = subprocess.run([BIN / "muster", "exec", "-r", "1", "--", "sh", "-c", "echo $MUSTER_RANK; wc -l < "
                                     "$MUSTER_RANK_TABLE"], **ask)
            assert (result.returncode, result.stdout) == (0, b"1\n3\n"), result
        finally:
            hvdrun.terminate()
            hvdrun.communicate(timeout=PATIENCE)
