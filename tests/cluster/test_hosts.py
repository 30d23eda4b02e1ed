"""What a test host is: names, users, files, processes."""

import os
import select
import signal
import subprocess
import tempfile

import pytest

import cluster as cluster_module
from cluster import testing

SSH = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"]


@pytest.mark.parametrize("user", ["alice", "bob", "root"])
def test_ssh_to_every_host_without_a_prompt(cluster, user):
    names = [(host, name) for host in cluster.nodes
             for name in (host, f"{host}-v6", cluster.address(host, 4), cluster.address(host, 6))]
    if user != "alice":
        names = names[:2]
    commands = [cluster.start("head", user, [*SSH, name, "hostname; whoami; echo $SSH_CONNECTION"], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for _, name in names]
    for (host, name), command in zip(names, commands):
        with command:
            out, err = command.communicate(timeout=30)
        assert command.returncode == 0, err
        lines = out.split("\n")
        assert lines[:2] == [host, user]
        assert (":" in lines[2].split()[2]) == (name.endswith("-v6") or ":" in name)


def test_own_names_and_a_domain(small):
    """As a site names its hosts; a name may fill a network link's 15 characters."""
    named = small(names=("x3006c0s13b1n0", "nid00001"), domain="hsn.site")
    assert named.nodes == ["x3006c0s13b1n0", "nid00001"]
    for host in named.nodes:
        for name in (host, f"{host}.hsn.site"):
            told = named.run("head", "alice", [*SSH, name, "hostname"])
            assert (told.returncode, told.stdout) == (0, host + "\n"), told
    named.cut("x3006c0s13b1n0")
    named.heal("x3006c0s13b1n0")
    assert named.run("head", "alice", [*SSH, "x3006c0s13b1n0", "hostname"]).returncode == 0


def test_names_of_interfaces(cluster, small):
    """They differ from host to host; with same_nics they are alike, and only the second one reaches other hosts."""
    def nics(where, host):
        return sorted(each.name for each in where.path(host, "/sys/class/net").iterdir() if each.name != "lo")

    assert len({tuple(nics(cluster, host)) for host in cluster.hosts}) == len(cluster.hosts)
    alike = small(same_nics=True)
    assert [nics(alike, host) for host in alike.hosts] == [["eth0", "eth1"]] * 3
    told = alike.run("n1", "alice", ["ip", "-o", "route", "get", alike.address("n2")], check=True).stdout
    assert " dev eth0 " in told
    assert alike.run("head", "alice", [*SSH, "n1", "hostname"]).stdout == "n1\n"


def test_sshd_has_debians_settings(cluster):
    settings = cluster.run("n1", "root", ["/usr/sbin/sshd", "-T"], check=True).stdout.splitlines()
    for line in ("usepam yes", "maxstartups 10:30:100", "strictmodes yes", "permitrootlogin without-password",
                 "subsystem sftp /usr/lib/openssh/sftp-server"):
        assert line in settings
    listing = cluster.run("head", "alice", ["sftp", "-b", "-", "n1"], input="pwd\n", check=True).stdout
    assert "/home/alice" in listing


def test_an_unknown_host_key_and_a_known_one(cluster):
    cluster.known_hosts(False)
    result = cluster.run("head", "alice", [*SSH, "n1", "true"])
    assert result.returncode == 255 and "Host key verification failed" in result.stderr
    cluster.known_hosts(True)
    assert cluster.run("head", "alice", [*SSH, "n1", "true"]).returncode == 0


def test_names_are_debians(cluster):
    for host in cluster.hosts:
        assert cluster.run(host, "alice", ["cat", "/etc/hostname", "/proc/sys/kernel/hostname"]).stdout == f"{host}\n" * 2
        first = cluster.run(host, "alice", ["getent", "ahostsv4", host]).stdout.split()[0]
        assert first == "127.0.1.1"
        assert cluster.run(host, "alice", ["getent", "hosts", "n2-v6"]).stdout.split()[0] == cluster.address("n2", 6)
    assert cluster.run("head", "alice", ["getent", "hosts", "nowhere"]).returncode == 2


def test_each_host_has_its_own_files(cluster):
    for folder in ("/tmp", "/home/alice", "/dev/shm", "/var/tmp"):
        cluster.run("n1", "alice", ["touch", f"{folder}/only-n1"], check=True)
        assert cluster.path("n1", f"{folder}/only-n1").exists()
        assert not cluster.path("n2", f"{folder}/only-n1").exists()
        assert not os.path.exists(f"{folder}/only-n1")
        cluster.path("n1", f"{folder}/only-n1").unlink()
    for path in ("/usr/x", "/x", __file__):
        result = cluster.run("n1", "root", ["touch", path])
        assert result.returncode == 1 and "Read-only file system" in result.stderr
    assert cluster.run("n1", "alice", ["head", "-c", "3", __file__]).stdout == '"""'


@pytest.mark.parametrize("top", ["/tmp", "/var/tmp", "/run", "/root", "/home"])
def test_an_exposed_folder_is_seen_where_hosts_have_their_own(top):
    testing.require_cluster()
    with tempfile.TemporaryDirectory(dir=top, prefix="expose-") as folder:
        os.chmod(folder, 0o755)
        with open(f"{folder}/program", "w") as file:
            file.write("#!/bin/sh\necho seen\n")
        os.chmod(f"{folder}/program", 0o755)
        own = cluster_module.Cluster.up(f"expose-{os.getpid()}", 1, expose=[folder])
        try:
            for host in own.hosts:
                assert own.run(host, "alice", [f"{folder}/program"]).stdout == "seen\n"
                result = own.run(host, "root", ["touch", f"{folder}/x"])
                assert result.returncode == 1 and "Read-only" in result.stderr
        finally:
            own.down()


def test_a_hosts_mount_table_shows_one_host_only(cluster):
    table = cluster.run("n1", "alice", ["cat", "/proc/self/mountinfo"]).stdout
    for view in ("/proc", "/sys", "/dev/shm", "/dev/pts", "/tmp", "/run", "/home"):
        assert [line.split()[4] for line in table.splitlines()].count(view) == 1, table
    assert "/run/muster-test" not in table and "/hosts/n2/" not in table


def test_bob_cannot_read_alices_home(cluster):
    for host in ("n1", "head"):
        for command in (["ls", "/home/alice"], ["cat", "/home/alice/.ssh/authorized_keys"]):
            result = cluster.run(host, "bob", command)
            assert result.returncode != 0 and "Permission denied" in result.stderr
    assert cluster.run("head", "bob", [*SSH, "alice@n1", "true"]).returncode == 255


def test_run_is_a_login_of_its_own(cluster):
    text = "echo $HOME $USER $LOGNAME $SHELL; pwd; umask; ps -o sid= -p $$; echo $$; env | grep -c ^ONE="
    result = cluster.run("n1", "bob", ["bash", "-c", text], env={"ONE": "1"})
    home, folder, umask, session, pid, one = result.stdout.split("\n")[:6]
    assert home == "/home/bob bob bob /bin/bash" and folder == "/home/bob" and umask == "0022" and one == "1"
    assert session.strip() == pid


def test_run_ends_as_the_command_ends(cluster):
    assert cluster.run("n1", "alice", ["sh", "-c", "exit 7"]).returncode == 7
    assert cluster.run("n1", "alice", ["sh", "-c", "kill -SEGV $$"]).returncode == -signal.SIGSEGV
    assert cluster.run("n1", "alice", ["cat"], input="fed\n").stdout == "fed\n"
    with pytest.raises(OSError, match="No such file"):
        cluster.run("n1", "alice", ["no-such-program"])
    with pytest.raises(subprocess.TimeoutExpired):
        cluster.run("n1", "alice", ["sleep", "1000"], timeout=0.05)
    assert testing.eventually(lambda: not testing.strays(cluster, "1000"), 2)


def test_signals_reach_the_command_itself(cluster):
    text = "trap 'echo got; exit 3' TERM; echo ready; while :; do sleep 1000 & wait; done"
    with cluster.start("n1", "alice", ["bash", "-c", text], stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout.readline() == "ready\n"
        found = [p for p in cluster.processes("n1") if p.pid == command.real_pid]
        assert len(found) == 1 and found[0].uid == cluster.uid("alice") and found[0].argv[:2] == ("bash", "-c")
        command.terminate()
        assert command.stdout.readline() == "got\n"
        for process in cluster.processes("n1"):
            if process.argv == ("sleep", "1000"):
                os.kill(process.pid, signal.SIGKILL)
        assert command.wait(5) == 3
    with cluster.start("n1", "alice", ["sleep", "1000"]) as command:
        os.kill(command.real_pid, signal.SIGKILL)
        assert command.wait(5) == -signal.SIGKILL


def test_a_terminal_of_the_host(cluster):
    controller, terminal = cluster.open_pty("n1")
    text = "tty; echo in the foreground > /dev/tty; exec sleep 1000"
    with cluster.start("n1", "alice", ["sh", "-c", text], stdin=terminal, stdout=terminal, stderr=terminal,
                       controlling_tty=True) as command:
        os.close(terminal)
        said = b""
        while b"foreground" not in said:
            assert select.select([controller], [], [], 5)[0], said
            said += os.read(controller, 4096)
        assert b"/dev/pts/" in said
        os.write(controller, b"\x03")
        assert command.wait(5) == -signal.SIGINT
    os.close(controller)


def test_processes_finds_what_hides(cluster):
    """A daemon in a session of its own, and one in a process namespace below the host's."""
    cluster.run("n2", "alice", ["bash", "-c", "(setsid sleep 1234 </dev/null >/dev/null 2>&1 &) & wait"],
                env={"MARK": "hidden-1"}, check=True)
    with cluster.start("n2", "root", ["unshare", "--pid", "--fork", "sleep", "1235"], env={"MARK": "hidden-2"}) as outer:
        inside = testing.eventually(lambda: [p for _, p in testing.strays(cluster, "1235") if p.comm == "sleep"], 5)
        daemon = [p for _, p in testing.strays(cluster, "hidden-1", ["n2"])]
        assert len(inside) == len(daemon) == 1
        assert inside[0].environ["MARK"] == "hidden-2" and inside[0].uid == 0
        assert daemon[0].argv == ("sleep", "1234") and daemon[0].ppid == cluster.pid("n2")
        shown = cluster.run("n2", "bob", ["ps", "-o", "args=", "-p", str(daemon[0].inner_pid)]).stdout
        assert shown == "sleep 1234\n"
        for process in inside + daemon:
            os.kill(process.pid, signal.SIGKILL)
        outer.wait(5)
    # The init reaps it: not even a zombie stays.
    assert testing.eventually(lambda: not os.path.exists(f"/proc/{daemon[0].pid}"), 5)
    assert not testing.strays(cluster, "hidden-1")


BATON = """
import os
while os.path.exists("/tmp/baton"):
    if os.fork():
        os._exit(0)
"""


def test_processes_finds_one_that_changes_its_pid(cluster):
    """Each child starts the next one and ends, so it may end between the list of pids and the look at it."""
    baton = cluster.path("n3", "/tmp/baton")
    baton.touch()
    try:
        cluster.run("n3", "alice", ["sh", "-c", "exec \"$@\" > /dev/null 2>&1", "sh", "/usr/bin/python3", "-c", BATON,
                                    "baton-of-pids"], check=True)
        missed = sum(not testing.strays(cluster, "baton-of-pids", ["n3"]) for _ in range(100))
        assert missed == 0, missed
    finally:
        baton.unlink()
    assert testing.eventually(lambda: not testing.strays(cluster, "baton-of-pids", ["n3"]), 5)


def test_hosts_do_not_see_each_others_processes(cluster):
    with cluster.start("n1", "alice", ["sleep", "4321"]) as command:
        assert "4321" in cluster.run("n1", "alice", ["ps", "ax"]).stdout
        assert "4321" not in cluster.run("n2", "root", ["ps", "ax"]).stdout
        command.kill()


def test_shared_home(small):
    shared = small(home="shared")
    shared.run("n1", "alice", ["touch", "from-n1"], check=True)
    assert shared.run("n2", "alice", ["ls", "from-n1"]).returncode == 0
    assert shared.run("n2", "alice", [*SSH, "n1", "true"]).returncode == 0  # the key is there too


def test_noexec_and_full_home_of_single_hosts(small):
    odd = small(homes={"n1": "noexec", "n2": "full"})
    copy = "cp /bin/true ~/t && ~/t"
    assert "Permission denied" in odd.run("head", "alice", [*SSH, "n1", copy]).stderr
    assert "No space left" in odd.run("head", "alice", [*SSH, "n2", copy]).stderr
    assert odd.run("head", "alice", ["sh", "-c", copy]).returncode == 0


def test_delegated_cgroup(small):
    given = small(delegate=["n1"])
    if not given.state["hosts"]["n1"]["cgroup"]:
        pytest.skip("this machine gives us no cgroup of version 2")
    find = "top=$(awk '$0 ~ / - cgroup2 / {print $5}' /proc/self/mountinfo); own=$top$(sed -n s/^0:://p /proc/self/cgroup); "
    divide = find + "mkdir $own/j && echo $$ > $own/j/cgroup.procs && sed -n s/^0:://p /proc/self/cgroup"
    assert given.run("head", "alice", [*SSH, "n1", divide]).stdout == "/sshd/j\n"
    assert given.run("n1", "alice", ["sh", "-c", divide.replace("/j", "/k")]).stdout == "/sshd/k\n"
    for host, user in (("n2", "alice"), ("n1", "bob")):
        assert "Permission denied" in given.run("head", user, [*SSH, host, divide.replace("/j", "/l")]).stderr
    kill = find + "(echo $BASHPID > $own/j/cgroup.procs; setsid sleep 999) & while ! grep -q . $own/j/cgroup.procs; do :; done; "
    kill += "echo 1 > $own/j/cgroup.kill; wait; rmdir $own/j"
    assert given.run("head", "alice", [*SSH, "n1", kill]).returncode == 0
    assert not testing.strays(given, "999")


def test_sixteen_hosts(clusters):
    many = clusters.get(16)
    assert len(many.nodes) == 16
    addresses = {many.address(host) for host in many.hosts}
    assert len(addresses) == 17
    for host in ("n1", "n16"):
        assert many.run("head", "alice", [*SSH, host, "hostname"]).stdout == f"{host}\n"


def test_without_privilege_one_line_says_so():
    testing.require_cluster()  # only root can lay privilege down
    script = os.path.join(os.path.dirname(cluster_module.__file__), "cluster")
    result = subprocess.run(["setpriv", "--reuid=2001", "--regid=2001", "--clear-groups", script, "up"],
                            capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr == "cluster: cannot make test hosts: needs root\n"
