"""A cluster comes, stands beside others, and goes without a trace, however it ends."""

import ipaddress
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import cluster as cluster_module
from cluster import Cluster, ClusterError, cgroups, network, state as store, testing

TESTS = pathlib.Path(__file__).resolve().parents[1]
SCRIPT = TESTS / "cluster/cluster"
NAME = f"life-{os.getpid()}"


@pytest.fixture(autouse=True)
def _privileged():
    testing.require_cluster()
    yield
    for name in store.names():
        if name.startswith(NAME):
            cluster_module.destroy(name)


def namespaces():
    """Inodes of all namespaces that some process is in."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for kind in ("mnt", "net", "pid", "uts", "ipc", "cgroup"):
            try:
                found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
            except OSError:
                continue  # ended meanwhile, or closed even to root
    return found


def machine():
    """What of this machine a cluster could have changed."""
    tool = lambda *argv: subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    root = cgroups.root()
    files = [pathlib.Path(path) for path in ("/etc/passwd", "/etc/shadow", "/etc/group", "/etc/hosts", "/etc/hostname",
                                             "/etc/nsswitch.conf", "/etc/ssh/sshd_config")]
    return {
        "links": [line.split(":")[1] for line in tool("ip", "-o", "link").splitlines()],
        "nft": tool("nft", "list", "ruleset"),
        # Other tests of this machine may mount below /tmp meanwhile.
        "mounts": [line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
                   if not line.split()[4].startswith("/tmp/")],
        "cgroups": [name for name in os.listdir(root) if name.startswith(f"muster-test-{NAME}")] if root else [],
        "home": sorted(os.listdir("/home")),
        "run": [name for name in store.names() if name.startswith(NAME)],
        "files": [path.read_bytes() for path in files if path.exists()],
        "name": os.uname().nodename,
    }


def test_down_leaves_nothing():
    before, spaces = machine(), namespaces()
    made = Cluster.up(NAME, 2, delegate=True)
    pids = [made.switch_pid] + [made.pid(host) for host in made.hosts]
    mine = set()
    for pid in pids:
        mine |= {os.readlink(f"/proc/{pid}/ns/{kind}") for kind in ("mnt", "net", "pid", "uts", "ipc")}
    assert len(mine - spaces) == 5 * len(pids)
    # Something of everything: faults, a relay, an ssh session, a daemon of a user in a cgroup of its own.
    made.drop("n1", probability=0.1)
    made.rate("n2", "100mbit")
    made.delay("n2", 1)
    made.run("head", "alice", ["ssh", "n2", "setsid sleep 1000 >/dev/null 2>&1 </dev/null & exit"], check=True)
    busy = made.start("n1", "bob", ["sleep", "1000"])
    if made.state["hosts"]["n1"]["cgroup"]:
        os.mkdir(made.state["hosts"]["n1"]["cgroup"] + "/sshd/below")
    everything = [store.identity(pid) for pid in pids]
    everything += [{"pid": p.pid, "start": p.start} for found in made.all_processes().values() for p in found]
    assert len(everything) > 2 * len(pids) and all(store.alive(who) for who in everything)
    made.down()
    assert busy.wait(5) == -signal.SIGKILL
    assert machine() == before
    assert testing.eventually(lambda: not mine & namespaces(), 5)
    assert not [who["pid"] for who in everything if store.alive(who)]
    made.down()  # again is fine
    with pytest.raises(ClusterError, match="no cluster"):
        Cluster(NAME)


def test_addresses_are_written_as_tools_write_them():
    """Names whose hash gives an address with a leading zero, which ssh would not find in known_hosts."""
    plans = [network.plan(f"any-{number}", ["n1", "head"]) for number in range(100)]
    for address in [own["v6"] for made in plans for own in made.values()]:
        assert address == str(ipaddress.ip_address(address)) and ipaddress.ip_address(address).is_private
    assert len({made["n1"]["v6"] for made in plans}) == 100
    assert network.plan("any-1", ["n1", "head"]) == plans[1]


def test_two_clusters_side_by_side():
    one, two = Cluster.up(NAME + "-a", 1), Cluster.up(NAME + "-b", 1)
    with pytest.raises(ClusterError, match="exists"):
        Cluster.up(NAME + "-a", 1)
    assert one.address("n1") != two.address("n1")
    for each, other in ((one, two), (two, one)):
        ssh = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=1"]
        assert each.run("head", "alice", [*ssh, "n1", "hostname"]).stdout == "n1\n"
        assert each.run("head", "alice", [*ssh, other.address("n1"), "true"]).returncode == 255
    keys = [each.path("head", "/home/alice/.ssh/id_ed25519").read_text() for each in (one, two)]
    assert keys[0] != keys[1]
    one.down()
    assert two.run("head", "alice", ["ssh", "n1", "hostname"]).stdout == "n1\n"
    two.down()


def test_it_ends_with_the_process_that_made_it():
    text = (f"import sys, signal; sys.path.insert(0, {str(TESTS)!r}); from cluster import Cluster; "
            f"made = Cluster.up({NAME!r}, 1); print(made.switch_pid, made.pid('n1'), flush=True); signal.pause()")
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as owner:
        pids = [int(word) for word in owner.stdout.readline().split()]
        assert len(pids) == 2 and all(store.start_time(pid) for pid in pids)
        owner.kill()
    assert testing.eventually(lambda: not any(store.start_time(pid) for pid in pids), 5)
    cluster_module.sweep()
    assert NAME not in store.names() and not machine()["cgroups"]


def test_a_failed_up_leaves_nothing(monkeypatch):
    before = machine()
    plan = network.plan

    def broken(*arguments):
        made = plan(*arguments)
        made["n2"]["v6"] = "no address"
        return made

    monkeypatch.setattr(network, "plan", broken)
    with pytest.raises(ClusterError, match="not made: ip .*any valid prefix"):
        Cluster.up(NAME, 2)
    assert machine() == before and not store._inits(NAME)
    for name, options in (("../x", {}), (NAME, {"home": "tent"}), (NAME, {"homes": {"n9": "full"}})):
        with pytest.raises(ClusterError):
            Cluster.up(name, 2, **options)
    assert machine() == before


def test_down_after_a_builder_that_was_killed():
    """The hosts exist and the state does not name them."""
    made = Cluster.up(NAME, 1)
    made.state["init"] = None
    for own in made.state["hosts"].values():
        own["init"] = None
    store.save(made.state)
    assert len(store._inits(NAME)) == 3
    cluster_module.destroy(NAME)
    assert not store._inits(NAME) and NAME not in store.names()
    os.makedirs(store.files(NAME))  # not even a state
    cluster_module.destroy(NAME)
    assert NAME not in store.names()


def test_up_and_down_are_quick():
    begin = time.monotonic()
    made = Cluster.up(NAME, 4)
    up = time.monotonic()
    made.down()
    print(f"up {up - begin:.2f} s, down {time.monotonic() - up:.2f} s")
    assert up - begin < 6 and time.monotonic() - up < 3  # 2 and 1 on a machine that does nothing else


def test_the_command_line():
    def call(*words, code=0, **options):
        result = subprocess.run([SCRIPT, "--name", NAME, *words], capture_output=True, text=True, timeout=60, **options)
        assert result.returncode == code, result.stderr
        return result.stdout + result.stderr

    assert f"{NAME} n2 " in call("up", "-n", "2", "--home", "shared", "--home", "n2=own")
    assert "exists" in call("up", code=1)
    listed = call("list")
    assert f"{NAME} n1 " in listed and "home=shared" in listed and "home=own" in listed
    assert call("run", "n1", "--", "sh", "-c", "hostname; whoami; echo $A", env=os.environ | {"A": "no"}) == "n1\nalice\n\n"
    assert call("run", "n1", "--user", "bob", "--env", "A=b", "--cwd", "/tmp", "--", "sh", "-c", "echo $A; pwd; cat",
                input="in\n") == "b\n/tmp\nin\n"
    call("run", "n1", "--", "sh", "-c", "exit 5", code=5)
    call("run", "n1", "--", "sh", "-c", "kill -KILL $$", code=137)
    assert "no host 'n7'" in call("run", "n7", "true", code=1)
    assert "sshd" in call("ps", "n1")
    for fault in (["cut", "n1", "reset"], ["drop", "n1", "--probability", "0.5", "--ports", "80"], ["only-ports", "head"],
                  ["rate", "n1", "10mbit"], ["delay", "n1", "5", "--jitter", "1"]):
        call(*fault)
    assert "reset" in call("run", "n1", "--user", "root", "--", "nft", "list", "ruleset")
    for host in ("n1", "head"):
        call("heal", host)
        assert call("run", host, "--user", "root", "--", "nft", "list", "ruleset") == ""
    call("sshd", "n1", "stop")
    call("sshd", "n1", "start")
    assert call("run", "head", "--", "ssh", "n1", "hostname") == "n1\n"
    call("kill", "n1")
    assert "dead" in call("list")
    call("boot", "n1")
    call("down")
    call("down")
    assert NAME not in call("list")


def test_a_signal_passes_through_the_command_line():
    Cluster.up(NAME, 1)
    argv = [SCRIPT, "run", "--name", NAME, "n1", "--", "sh", "-c", "trap 'exit 4' TERM; echo ready; sleep 1000 & wait"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout.readline() == "ready\n"
        command.terminate()
        assert command.wait(5) == 4
        cluster_module.destroy(NAME)  # the sleep that sh has left holds the pipe
