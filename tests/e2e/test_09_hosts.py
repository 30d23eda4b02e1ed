"""Hosts that fail, before and during a run: each in a sentence of its own with the next step, all at once, no prompt."""

import contextlib
import os
import re
import shutil
import signal
import time

import pytest
from cluster import testing
from console import PATIENCE, PYTHON, Watched, last_line, notices

LEASE = 15.0
HOME = "/home/alice"
PROMPT = re.compile(r"password:|passphrase for|\(yes/no", re.I)
COUNT = """
import os, sys, time
print("ready", flush=True)
for number in range(int(sys.argv[1])):
    print("line", number, flush=True)
    time.sleep(0.02)
"""


def messages(result):
    """{host: its sentence}; every host once."""
    found = [match.groups() for line in notices(result) if (match := re.fullmatch(r"host (\S+): (.*)", line))]
    assert len({host for host, _ in found}) == len(found), result
    return dict(found)


def fails(hvdrun, cluster, hosts, *args, terminal=True, **options):
    """The sentences of a run that does not start.  On a terminal: whoever wants to ask something could."""
    listed = ["-np", str(len(hosts)), "-H", ",".join(f"{host}:1" for host in hosts)]
    job = Watched(hvdrun, cluster, [*listed, *args, "touch", "/tmp/has-run"], terminal=terminal, **options)
    result = job.end()
    assert result.rc == 125, result
    assert not PROMPT.search(result.stdout + result.stderr), result
    assert last_line(result).endswith(": not started"), result
    for host in cluster.nodes:
        assert not cluster.path(host, "/tmp/has-run").exists()
    return messages(result)


def works(hvdrun, cluster, *args, **options):
    result = Watched(hvdrun, cluster, [*args, "hostname"], terminal=True, **options).end()
    assert result.rc == 0 and not PROMPT.search(result.stdout), result
    return result


@contextlib.contextmanager
def replaced(cluster, host, path, text, user="alice", mode=0o600):
    """A file of a host with this text (None: not there), and afterwards as it was."""
    file = cluster.path(host, path)
    before = file.read_bytes() if file.exists() else None
    write(cluster, file, text, user, mode)
    try:
        yield
    finally:
        write(cluster, cluster.path(host, path), before, user, mode)


def write(cluster, file, text, user, mode):
    if text is None:
        file.unlink(missing_ok=True)
        return
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.chown(file, cluster.uid(user), cluster.uid(user))
    file.chmod(mode)


def bashrc(cluster, host, text):
    return replaced(cluster, host, f"{HOME}/.bashrc", text, mode=0o644)


@pytest.fixture(params=["libssh", "ssh"])
def backend(request):
    return ["--ssh-backend", request.param]


def test_unknown_name(hvdrun, cluster, no_leftovers, backend):
    said = fails(hvdrun, cluster, ["n1", "nosuch"], *backend)
    assert list(said) == ["nosuch"]
    assert "cannot resolve the name" in said["nosuch"] and "check its spelling" in said["nosuch"]


def test_nothing_listens(hvdrun, cluster, no_leftovers, backend):
    cluster.stop_sshd("n2")
    try:
        said = fails(hvdrun, cluster, ["n1", "n2"], *backend)
    finally:
        cluster.start_sshd("n2")
    assert list(said) == ["n2"]
    assert "nothing accepts connections" in said["n2"] and "port 22" in said["n2"] and "start sshd" in said["n2"]


def test_no_answer(hvdrun, cluster, no_leftovers, backend):
    works(hvdrun, cluster, "-np", "1", "-H", "n1")  # its agent is there
    cluster.cut("n2", "drop")
    begin = time.monotonic()
    said = fails(hvdrun, cluster, ["n1", "n2"], "--start-timeout", "5", *backend)
    assert 5.0 <= time.monotonic() - begin < 5.0 + PATIENCE / 4
    assert "n2" in said  # n1 may be slow on a busy machine
    assert "no answer" in said["n2"] and "--start-timeout" in said["n2"], said


def test_changed_host_key(hvdrun, cluster, no_leftovers, backend):
    known = cluster.path("head", f"{HOME}/.ssh/known_hosts").read_text()
    key_of = {line.split()[0].split(",")[0]: line.split()[1:] for line in known.splitlines()}
    foreign = " ".join(key_of["n1"])
    changed = "\n".join(f"{line.split()[0]} {foreign}" if re.match(r"n2\b", line) else line
                        for line in known.splitlines()) + "\n"
    with replaced(cluster, "head", f"{HOME}/.ssh/known_hosts", changed):
        said = fails(hvdrun, cluster, ["n1", "n2"], *backend)
    assert list(said) == ["n2"]
    assert "its host key differs from the one in" in said["n2"] and "ssh-keygen -R 'n2'" in said["n2"], said


def test_unknown_host_key_is_kept_and_told_once(hvdrun, cluster, backend):
    with replaced(cluster, "head", f"{HOME}/.ssh/known_hosts", ""):
        first = works(hvdrun, cluster, "-np", "2", "-H", "n1,n2", *backend)
        second = works(hvdrun, cluster, "-np", "2", "-H", "n1,n2", *backend)
    for host in ("n1", "n2"):
        assert len(re.findall(rf"hvdrun: {host}: .*(?:new host key|Permanently added)", first.stdout)) == 1, first
    assert not re.search("host key|Permanently", second.stdout), second


def test_unknown_host_key_refused(hvdrun, cluster, no_leftovers, backend):
    with replaced(cluster, "head", f"{HOME}/.ssh/known_hosts", ""), \
            replaced(cluster, "head", f"{HOME}/.ssh/config", "Host n*\n  StrictHostKeyChecking yes\n"):
        said = fails(hvdrun, cluster, ["n1", "n2"], *backend)
        assert cluster.path("head", f"{HOME}/.ssh/known_hosts").read_text() == ""
    assert sorted(said) == ["n1", "n2"]
    assert all("its host key is unknown" in text and re.search(r"once with: ssh (alice@)?n[12]$", text)
               for text in said.values()), said


def test_authentication_refused(hvdrun, cluster, no_leftovers, backend):
    with replaced(cluster, "n2", f"{HOME}/.ssh/authorized_keys", None):
        said = fails(hvdrun, cluster, ["n1", "n2"], *backend)
    assert list(said) == ["n2"]
    assert "did not accept user" in said["n2"] and "ssh-copy-id" in said["n2"], said


def test_key_with_a_passphrase_asks_nothing(hvdrun, cluster, no_leftovers):
    cluster.run("head", "alice", ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", "/tmp/locked"], check=True)
    public = cluster.path("head", "/tmp/locked.pub").read_text()
    try:
        with replaced(cluster, "n2", f"{HOME}/.ssh/authorized_keys", public), \
                replaced(cluster, "head", f"{HOME}/.ssh/config", "IdentitiesOnly yes\n"):
            said = fails(hvdrun, cluster, ["n2"], "-i", "/tmp/locked")
    finally:
        cluster.run("head", "alice", ["rm", "/tmp/locked", "/tmp/locked.pub"], check=True)
    assert "passphrase" in said["n2"], said


def test_all_bad_hosts_are_named_at_once(hvdrun, cluster, no_leftovers):
    cluster.stop_sshd("n1")
    cluster.cut("n3", "reset")
    try:
        with replaced(cluster, "n2", f"{HOME}/.ssh/authorized_keys", None):
            said = fails(hvdrun, cluster, ["nosuch", "n1", "n2", "n3", "n4"])
    finally:
        cluster.start_sshd("n1")
    assert sorted(said) == ["n1", "n2", "n3", "nosuch"]
    assert len({re.sub(r"\S*n\d\S*|[\d.]+", "", text) for text in said.values()}) >= 3, said


def test_noisy_shell(hvdrun, cluster, no_leftovers, backend):
    with bashrc(cluster, "n1", "echo welcome to n1; printf 'no newline'; echo warned >&2\n"):
        result = works(hvdrun, cluster, "-np", "2", "-H", "n1,n2", *backend)
    assert "[0]<stdout>:n1\r\n" in result.stdout and "[1]<stdout>:n2\r\n" in result.stdout, result
    assert "welcome" not in result.stdout, result


@pytest.mark.parametrize("text,words", [("echo go away; exit 3\n", ["exit status 3", "go away"]),
                                        ("exec cat\n", ["the agent did not answer"])], ids=["exits", "is-another-program"])
def test_shell_that_runs_nothing(hvdrun, cluster, no_leftovers, text, words):
    with bashrc(cluster, "n2", text):
        said = fails(hvdrun, cluster, ["n1", "n2"], "--start-timeout", "3")
    assert list(said) == ["n2"]
    assert all(word in said["n2"] for word in words), said


def test_homes_without_room_or_programs(hvdrun, make_cluster, no_leftovers):
    odd = make_cluster(3, homes={"n1": "noexec", "n2": "full"})
    said = fails(hvdrun, odd, ["n1", "n2", "n3"])
    assert sorted(said) == ["n1", "n2"]
    assert "cannot run programs in " in said["n1"] and "(file system mounted noexec?)" in said["n1"] and "--agent-dir" in said["n1"], said
    assert "no space left" in said["n2"] and "--agent-dir" in said["n2"], said
    result = works(hvdrun, odd, "-np", "3", "-H", "n1,n2,n3", "--agent-dir", "/var/tmp/muster-of-alice")
    assert result.stdout.count("<stdout>:n") == 3, result  # the next step that was named


def test_other_machine(hvdrun, cluster, no_leftovers):
    cluster.path("n2", "/tmp/uname").write_text("#!/bin/sh\necho Linux aarch64\n")
    cluster.path("n2", "/tmp/uname").chmod(0o755)
    cluster.run("n2", "alice", ["rm", "-rf", f"{HOME}/.cache/muster"], check=True)
    cluster.run("n2", "root", ["mount", "--bind", "/tmp/uname", "/usr/bin/uname"], check=True)
    try:
        said = fails(hvdrun, cluster, ["n1", "n2"])
    finally:
        cluster.run("n2", "root", ["umount", "/usr/bin/uname"], check=True)
    assert list(said) == ["n2"]
    assert "the host runs Linux aarch64" in said["n2"] and "build muster-agent for that architecture" in said["n2"], said


@pytest.mark.parametrize("how", ["text", "empty", "truncated"])
def test_spoilt_agent_in_the_cache(hvdrun, cluster, no_leftovers, how):
    works(hvdrun, cluster, "-np", "1", "-H", "n2")
    found = list(cluster.path("n2", f"{HOME}/.cache/muster").glob("agent-*"))
    assert len(found) >= 1
    for file in found:
        content = {"text": b"\x7fELF nothing that runs\n", "empty": b"", "truncated": file.read_bytes()[:100_000]}[how]
        write(cluster, file, None, "alice", 0o700)
        write(cluster, file, content, "alice", 0o700)
    try:
        result = Watched(hvdrun, cluster, ["-np", "1", "-H", "n2", "hostname"], terminal=True).end()
    finally:
        cluster.run("n2", "alice", ["rm", "-rf", f"{HOME}/.cache/muster"], check=True)
    if how == "truncated":  # the kernel takes it for a program, which crashes
        assert result.rc == 125 and ".cache/muster/agent-" in messages(result)["n2"], result
    else:
        assert result.rc == 0 and "[0]<stdout>:n2\r\n" in result.stdout, result


@contextlib.contextmanager
def login_shell(cluster, shell):
    """Alice's, on all hosts."""
    passwd = cluster.path("n1", "/etc/passwd")
    before = passwd.read_text()
    passwd.write_text(re.sub(r"^(alice:.*:)\S+$", rf"\g<1>{shell}", before, flags=re.M))
    try:
        yield
    finally:
        passwd.write_text(before)


NOISE = {"dash": None, "tcsh": f"{HOME}/.tcshrc", "fish": f"{HOME}/.config/fish/config.fish"}
WORDS = "a b  'quoted' \"double\" $HOME `id` (x) {y} * ? ! \\ ünï\nsecond line"


@pytest.mark.parametrize("shell", NOISE)
def test_login_shell_that_is_not_bash(hvdrun, cluster, no_leftovers, backend, shell):
    path = shutil.which(shell, path="/usr/bin:/bin")
    if path is None:
        pytest.skip(f"{shell} is not installed")
    cluster.run("n1", "alice", ["rm", "-rf", f"{HOME}/.cache/muster"], check=True)
    noise = NOISE[shell]
    with contextlib.ExitStack() as stack:
        stack.enter_context(login_shell(cluster, path))
        if noise:
            cluster.run("n1", "alice", ["mkdir", "-p", os.path.dirname(noise)], check=True)
            stack.enter_context(replaced(cluster, "n1", noise, "echo welcome; echo warned > /dev/stderr\n", mode=0o644))
        show = 'printf "%s\\n" "$0" "$WORDS" "$(basename "$SHELL")"; exit $MUSTER_RANK'
        result = hvdrun(["-np", "2", "-H", "n1,n2", "--on-exit", "wait", *backend, "sh", "-c", show, WORDS],
                        env={"WORDS": WORDS})
    assert result.rc == 1, result
    for rank in range(2):
        said = [line.split(":", 1)[1] for line in result.stdout.splitlines() if line.startswith(f"[{rank}]<stdout>:")]
        assert "\n".join(said) == f"{WORDS}\n{WORDS}\n{shell}", result


@pytest.mark.parametrize("link", ["dial", "ssh"])
def test_ssh_program_is_killed(hvdrun, cluster, no_leftovers, link):
    job = Watched(hvdrun, cluster, ["-np", "2", "-H", "n1,n2", "--ssh-backend", "ssh", "--agent-link", link, PYTHON, "-c",
                                    COUNT, "100000"])
    job.out.wait_for(r"\[\d\]<stdout>:ready", 2, timeout=PATIENCE)
    begin = time.monotonic()
    ssh = [process for process in cluster.processes("head") if process.comm == "ssh" and "n2" in process.argv]
    assert len(ssh) == 1, ssh
    os.kill(ssh[0].pid, signal.SIGKILL)
    result = job.end()
    assert result.rc == 125 and re.search(r"^hvdrun: .*n2", result.stderr, re.M), result
    assert time.monotonic() - begin < LEASE, result


def test_port(hvdrun, cluster, no_leftovers):
    cluster.start_sshd("n1", "-p", "2222", "-o", "PidFile=/run/sshd-2222.pid")
    cluster.stop_sshd("n1")
    try:
        result = works(hvdrun, cluster, "-np", "1", "-H", "n1", "-p", "2222")
        cluster.path("head", "/tmp/ports").write_text("n1 port=2222\nn2\n")
        mixed = works(hvdrun, cluster, "--hostfile", "/tmp/ports")
    finally:
        cluster.start_sshd("n1")
        cluster.run("n1", "root", ["sh", "-c", "kill $(cat /run/sshd-2222.pid)"], check=True)
    assert "[0]<stdout>:n1\r\n" in result.stdout, result
    assert "[0]<stdout>:n1\r\n" in mixed.stdout and "[1]<stdout>:n2\r\n" in mixed.stdout, mixed


def test_identity(hvdrun, cluster, no_leftovers, backend):
    cluster.run("head", "alice", ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/tmp/other"], check=True)
    public = cluster.path("head", "/tmp/other.pub").read_text()
    try:
        with replaced(cluster, "n1", f"{HOME}/.ssh/authorized_keys", public):
            refused = fails(hvdrun, cluster, ["n1"], *backend)
            result = works(hvdrun, cluster, "-np", "1", "-H", "n1", "-i", "/tmp/other", *backend)
    finally:
        cluster.run("head", "alice", ["rm", "/tmp/other", "/tmp/other.pub"], check=True)
    assert "did not accept user" in refused["n1"]
    assert "[0]<stdout>:n1\r\n" in result.stdout, result


def test_other_user(hvdrun, cluster):
    own = cluster.path("head", f"{HOME}/.ssh/id_ed25519.pub").read_text()
    bobs = cluster.path("n1", "/home/bob/.ssh/authorized_keys").read_text()
    with replaced(cluster, "n1", "/home/bob/.ssh/authorized_keys", bobs + own, user="bob"):
        result = hvdrun(["-np", "2", "-H", "bob@n1,n2", "--wdir", "/tmp", "id", "-un"])
    assert result.rc == 0, result
    assert sorted(result.stdout.splitlines()) == ["[0]<stdout>:bob", "[1]<stdout>:alice"], result


@pytest.mark.parametrize("link", ["dial", "ssh"])
def test_host_dies(hvdrun, cluster, no_leftovers, link):
    job = Watched(hvdrun, cluster, ["-np", "4", "-H", "n1:2,n2:2", "--agent-link", link, "-x", "MARK=host-dies",
                                    "sh", "-c", "echo ready; exec sleep 1000"])
    job.out.wait_for("ready", 4)
    cluster.kill_host("n2")
    begin = time.monotonic()
    job.err.wait_for("n2 does not answer", timeout=PATIENCE / 4)
    result = job.end(LEASE + PATIENCE)
    assert result.rc == 125, result
    assert time.monotonic() - begin < LEASE + 5 + PATIENCE / 4, result
    assert re.search(r"^hvdrun: n2: not heard of for 15 s", result.stderr, re.M), result
    assert last_line(result).endswith("stopped because a host was lost"), result
    assert not testing.strays(cluster, "host-dies", ["n1"])


@pytest.mark.parametrize("link", ["dial", "ssh"])
def test_short_cut_does_no_harm(hvdrun, cluster, no_leftovers, link):
    count = 300
    job = Watched(hvdrun, cluster, ["-np", "4", "-H", "n1:2,n2:2", "--agent-link", link, PYTHON, "-c", COUNT, str(count)])
    job.out.wait_for("ready", 4)
    cluster.cut("n2", "drop")
    testing.eventually(lambda: job.ended(), 3.0)
    cluster.heal("n2")
    result = job.end()
    assert result.rc == 0, result
    for rank in range(4):
        lines = re.findall(rf"^\[{rank}\]<stdout>:line (\d+)$", result.stdout, re.M)
        assert [int(line) for line in lines] == list(range(count)), result
    assert "n2: answers again" in result.stderr, result
