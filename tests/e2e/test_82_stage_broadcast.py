"""Large files that many hosts need go from host to host: what the launcher sends, and what happens when hosts fail."""

import os
import re
import signal

import pytest
from cluster import testing

HOSTS = ("n1", "n2", "n3", "n4")
MIB = 1 << 20
SIZE = 48 * MIB
LINE = ["--stage", "in:other", "-H", "n1,n2,n3,n4"]
# One file of 48 MiB of random bytes, small ones, and a link.
MAKE = (f"rm -rf in && mkdir -p in/sub && head -c {SIZE} /dev/urandom > in/big && printf 'one\\n' > in/a && ln -s a in/link "
        "&& : > in/sub/empty && for i in $(seq 50); do echo $i > in/sub/$i; done && chmod 750 in/a")
SUMS = "cd %s && find . -type f ! -name '.muster-stage.*' | LC_ALL=C sort | xargs md5sum && stat -c '%%n %%a %%Y' a big sub/7 && readlink link"


@pytest.fixture
def files(cluster, no_leftovers):
    cluster.run("head", "alice", ["sh", "-c", MAKE], check=True)
    yield
    for host in ("head", *HOSTS):
        cluster.run(host, "alice", ["rm", "-rf", "in", "other"], check=True)


def tree(cluster, host, folder):
    return cluster.run(host, "alice", ["sh", "-c", SUMS % folder], check=True).stdout


def check_trees(cluster, hosts=HOSTS):
    expected = tree(cluster, "head", "in")
    for host in hosts:
        assert tree(cluster, host, "other") == expected, host


def from_here(result):
    """The bytes of content that the launcher says it has sent."""
    said = re.search(r"staged .* in all, ([\d.]+) (bytes|kB|MB|GB) of it from here", result.stderr)
    assert said, result
    return float(said[1]) * {"bytes": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}[said[2]]


def sent_by(cluster, host):
    """The bytes that a host's interfaces have sent, without loopback."""
    text = cluster.run(host, "root", ["cat", "/proc/net/dev"], check=True).stdout
    return sum(int(line.split(":")[1].split()[8]) for line in text.splitlines()
               if ":" in line and line.split(":")[0].strip() != "lo")


def agent(cluster, host):
    agents = {process.pid: process for process in cluster.processes(host)
              if process.uid == cluster.uid("alice") and process.argv[-1:] == ("--stdio",) and process.comm != "muster-warden"}
    first = [process for process in agents.values() if process.ppid not in agents]
    assert len(first) == 1, agents
    return first[0]


def blocks_on(cluster, host):
    """The bytes of the partial file of `big` that are on the host's disk."""
    parts = [path for path in cluster.path(host, "/home/alice/other").glob(".muster-stage.half.part.*")
             if path.stat().st_size == SIZE]
    return max((part.stat().st_blocks * 512 for part in parts), default=0)


@pytest.fixture
def slow(cluster):
    """The launcher's link carries 10 MB/s, so that a staging takes five seconds."""
    cluster.rate("head", "80mbit", burst="256kb")
    yield
    cluster.rate("head", None)


def start(hvdrun, cluster, *args, host="n4", blocks=4 * MIB):
    """Starts a staging, and returns when `host` has some blocks of the large file."""
    running = hvdrun.start(["--verbose", *LINE, *args, "true"])
    assert testing.eventually(lambda: running.poll() is not None or blocks_on(cluster, host) >= blocks, 40), "no blocks"
    assert running.poll() is None, hvdrun.finish(running)
    return running


def test_the_launcher_sends_one_copy(hvdrun, cluster, files):
    assert hvdrun([*LINE[2:], "true"]).rc == 0  # brings the agent to the hosts
    before = sent_by(cluster, "head")
    result = hvdrun([*LINE, "cat", "other/a"])
    sent = sent_by(cluster, "head") - before
    assert result.rc == 0 and result.stdout.count(">:one\n") == 4, result
    check_trees(cluster)
    assert SIZE < sent < 1.2 * SIZE, (sent, result.stderr)
    assert abs(from_here(result) - SIZE) < MIB, result
    again = hvdrun([*LINE, "true"])
    assert "staged /home/alice/in: 53 files, all present already" in again.stderr, again


def test_only_changed_blocks_are_sent(hvdrun, cluster, files):
    assert hvdrun([*LINE, "true"]).rc == 0
    change = (f"printf changed | dd of=in/big bs=1 seek={20 * MIB} conv=notrunc status=none; echo two > in/a; "
              "rm in/sub/7; touch in/sub/7")
    cluster.run("head", "alice", ["sh", "-c", change], check=True)
    result = hvdrun([*LINE, "true"])
    assert result.rc == 0 and "3 of 53 files" in result.stderr, result
    assert from_here(result) <= 1.1e6, result
    check_trees(cluster)


def test_a_link_between_two_agents_is_cut(hvdrun, cluster, files, slow):
    """n4 gets its blocks from n2."""
    running = start(hvdrun, cluster)
    both = f"{{ {cluster.address('n2')}, {cluster.address('n4')} }}"
    pair = f"ip saddr {both} ip daddr {both}"
    try:
        cluster.drop("n4", packets=pair)
        result = hvdrun.finish(running)
    finally:
        cluster.heal("n4")
    assert result.rc == 0, result
    assert re.search(r"n4: --stage: blocks come from n1 instead of n2: it sent nothing for 5", result.stderr), result
    check_trees(cluster)
    assert from_here(result) < 1.2 * SIZE, result


def test_a_forwarding_agent_stands_still(hvdrun, cluster, files, slow):
    running = start(hvdrun, cluster)
    stopped = agent(cluster, "n2")
    os.kill(stopped.pid, signal.SIGSTOP)
    try:
        done = testing.eventually(lambda: cluster.path("n4", "/home/alice/other/big").exists(), 13)
        is_half = not cluster.path("n2", "/home/alice/other/big").exists()
    finally:
        os.kill(stopped.pid, signal.SIGCONT)
    result = hvdrun.finish(running)
    assert done and is_half, result
    assert result.rc == 0 and "n4: --stage: blocks come from n1 instead of n2" in result.stderr, result
    check_trees(cluster)


def test_a_forwarding_agent_is_killed(hvdrun, cluster, files, slow):
    running = start(hvdrun, cluster)
    os.kill(agent(cluster, "n2").pid, signal.SIGKILL)
    result = hvdrun.finish(running)
    assert result.rc == 125 and "n2" in result.stderr, result
    for host in HOSTS:
        assert not cluster.path(host, "/home/alice/other/big").exists(), host
    # The next staging sends the rest.
    result = hvdrun([*LINE, "true"])
    assert result.rc == 0 and from_here(result) < SIZE - 2 * MIB, result
    check_trees(cluster)


def test_a_killed_launcher_and_the_rest(hvdrun, cluster, files, slow):
    running = start(hvdrun, cluster, blocks=16 * MIB)
    running.send_signal(signal.SIGKILL)
    running.wait(20)
    for host in HOSTS:
        assert testing.eventually(lambda: not [each for each in cluster.processes(host) if "--stdio" in each.argv], 30)
        assert not cluster.path(host, "/home/alice/other/big").exists()
    result = hvdrun([*LINE, "true"])
    assert result.rc == 0 and from_here(result) < SIZE - 12 * MIB, result
    check_trees(cluster)
    for host in HOSTS:
        assert not list(cluster.path(host, "/home/alice/other").rglob(".muster-stage*")), host


def test_ctrl_c_in_the_middle(hvdrun, cluster, files, slow):
    running = start(hvdrun, cluster)
    running.send_signal(signal.SIGINT)
    result = hvdrun.finish(running)
    assert result.rc == 130, result
    for host in HOSTS:
        assert not cluster.path(host, "/home/alice/other/big").exists()
        assert testing.eventually(lambda: not [each for each in cluster.processes(host) if "--stdio" in each.argv], 30)


def test_a_full_disk_on_a_forwarding_host(hvdrun, cluster, files):
    mount = ("mkdir /home/alice/other && mount -t tmpfs -o size=20m,mode=755 small /home/alice/other && "
             "chown alice /home/alice/other")
    cluster.run("n2", "root", ["sh", "-c", mount], check=True)
    try:
        result = hvdrun([*LINE, "true"])
        assert result.rc == 125, result
        assert re.search(r"n2: --stage: write /home/alice/other/big: No space left", result.stderr), result
        # The agent removes its files as it ends, which may be after hvdrun.
        assert testing.eventually(lambda: not list(cluster.path("n2", "/home/alice/other").glob(".muster-stage*")), 30)
    finally:
        cluster.run("n2", "root", ["sh", "-c", "umount /home/alice/other && rmdir /home/alice/other"], check=True)
    result = hvdrun([*LINE, "true"])
    assert result.rc == 0, result
    check_trees(cluster)


def test_hosts_that_cannot_reach_each_other(hvdrun, cluster, files):
    """All ports are closed but sshd's. Agents reach the launcher through ssh, and get all blocks from it."""
    for host in HOSTS:
        cluster.only_ports(host, "22", how="reset")
    try:
        result = hvdrun(["--agent-link", "ssh", *LINE, "true"])
    finally:
        for host in HOSTS:
            cluster.heal(host)
    assert result.rc == 0, result
    check_trees(cluster)
    assert from_here(result) > 3.9 * SIZE, result


def test_hosts_that_share_a_file_system_get_one_copy(hvdrun, make_cluster, no_leftovers):
    shared = make_cluster(4, home="shared")
    shared.run("head", "alice", ["sh", "-c", MAKE], check=True)
    result = hvdrun([*LINE, "cat", "other/a"], on=shared)
    assert result.rc == 0 and "of it from here" not in result.stderr, result
    assert re.search(r"53 of 53 files, 50.3 MB in all, to /home/alice/other on n1$", result.stderr, re.M), result
    shared.run("head", "alice", ["rm", "-rf", "in", "other"], check=True)
