"""Agents that come without an ssh log-in of ours: started by a command of the user's, once a host, or by hand. The same
job, the same end, and nothing left behind; the hosts share their homes, as sites have it.

The command is the ssh program (`ssh {host} {cmd}`): to hvdrun it is any program that runs words on a host."""

import re
import signal

import pytest
from cluster import testing
from conftest import BIN_DIR
from console import PATIENCE, Watched, last_line, notices

SSH = ["--bootstrap-cmd", "ssh -n -o BatchMode=yes {host} {cmd}"]
FOUR = ["-np", "4", "-H", "n1:2,n2:2"]
READY = ["sh", "-c", "echo ready; exec sleep 1000"]
AGENTS = "/home/alice/.cache/muster"


@pytest.fixture
def site(make_cluster):
    """Hosts with one home for all."""
    return make_cluster(home="shared")


@pytest.fixture
def clean(site, no_leftovers):
    """no_leftovers, which looks at the hosts that are there when it begins."""


def join_files(cluster):
    folder = cluster.path("head", AGENTS)
    return sorted(path.name for path in folder.glob("join-*")) if folder.exists() else []


def typed(job, host):
    """The words that hvdrun asks somebody to type on a host."""
    line = job.err.wait_for(rf"hvdrun: {host}: start the agent there, as the same user: (.*)\n")[0]
    return line[1].split()


def agents(cluster, host):
    """The agent's processes: the one that the site started carries the connection, its child is the agent."""
    return [each for each in cluster.processes(host) if "--join" in each.argv and each.comm.startswith("agent-")]


@pytest.mark.parametrize("link", ["dial", "ssh"])
def test_a_command_starts_the_agents(hvdrun, site, clean, link):
    program = ["sh", "-c", "echo $MUSTER_RANK of $MUSTER_SIZE on $(hostname) $HOME $USER"]
    result = hvdrun([*FOUR, *SSH, "--agent-link", link, *program], on=site)
    assert result.rc == 0, result
    said = sorted(re.findall(r"<stdout>:(.*)", result.stdout))
    assert said == [f"{rank} of 4 on n{rank // 2 + 1} /home/alice alice" for rank in range(4)], result
    assert join_files(site) == []


def test_much_output_over_the_enrolled_connection(hvdrun, site, clean):
    program = ["sh", "-c", "seq 1 200000"]
    result = hvdrun([*FOUR, *SSH, "--agent-link", "ssh", *program], on=site, timeout=120)
    assert result.rc == 0, result.stderr
    for rank in range(4):
        lines = re.findall(rf"^\[{rank}\]<stdout>:(\d+)$", result.stdout, re.M)
        assert lines == [str(number) for number in range(1, 200001)]


def test_by_hand_with_nothing_in_the_environment(hvdrun, site, clean):
    job = Watched(hvdrun, site, [*FOUR, "--bootstrap", "manual", "sh", "-c", "echo ready $HOME $LOGNAME; exec sleep 1000"])
    words = {host: typed(job, host) for host in ("n1", "n2")}
    path = words["n1"][words["n1"].index("--join") + 1]
    file = site.path("head", path)
    assert file.stat().st_mode & 0o777 == 0o600 and file.stat().st_uid == site.uid("alice")
    token = re.search(r"^token ([0-9a-f]{64})$", file.read_text(), re.M)[1]
    # Exactly what is asked for, by a login that gives no variables.
    started = [site.start(host, "alice", ["env", "-i", *words[host]]) for host in words]
    job.out.wait_for("ready /home/alice alice", 4)
    assert not file.exists()
    for found in site.all_processes().values():
        for process in found:
            assert not any(token in word for word in process.argv), process
            assert not any(token in value for value in process.environ.values()), process
    job.signal(signal.SIGINT)
    assert job.end().rc == 130
    for command in started:
        command.wait(PATIENCE)


def test_ctrl_c(hvdrun, site, clean):
    job = Watched(hvdrun, site, [*FOUR, *SSH, *READY], terminal=True)
    job.out.wait_for("ready", 4)
    job.type("\x03")
    assert job.end().rc == 130


def test_the_launcher_is_killed(hvdrun, site, clean):
    job = Watched(hvdrun, site, [*FOUR, *SSH, "-x", "MARK=boot-killed", *READY])
    job.out.wait_for("ready", 4)
    job.signal(signal.SIGKILL)
    assert job.end().rc == -9
    assert testing.eventually(lambda: not testing.strays(site, "boot-killed"), PATIENCE)


def test_an_agent_is_killed(hvdrun, site, clean):
    job = Watched(hvdrun, site, [*FOUR, *SSH, "-x", "MARK=agent-killed", *READY])
    job.out.wait_for("ready", 4)
    pids = [str(each.inner_pid) for each in agents(site, "n1")]
    assert len(pids) == 2, pids
    site.run("n1", "alice", ["kill", "-9", *pids])  # one of the two may end by the end of the other
    result = job.end()
    assert result.rc == 125, result
    assert "n1" in result.stderr, result
    assert not testing.strays(site, "agent-killed")


def test_a_host_that_nobody_starts(hvdrun, site, clean):
    job = Watched(hvdrun, site, [*FOUR, "--bootstrap", "manual", "--start-timeout", "8", *READY])
    words = typed(job, "n1")
    started = site.start("n1", "alice", words)
    result = job.end()
    assert result.rc == 125, result
    assert "host n2: its agent did not connect within 8 s" in result.stderr, result
    assert "host n1:" not in result.stderr, result
    assert last_line(result).endswith(": not started"), result
    started.wait(PATIENCE)
    assert join_files(site) == []


def test_a_command_that_fails(hvdrun, site, clean):
    failing = "sh -c 'echo no such node >&2; exit 3' {host} {cmd}"
    result = hvdrun([*FOUR, "--bootstrap-cmd", failing, *READY], on=site)
    assert result.rc == 125, result
    for host in ("n1", "n2"):
        sentence = f'host {host}: sh ended with exit status 3 before the agent there enrolled: "no such node"'
        assert sentence in notices(result), result
    assert result.elapsed < PATIENCE
    assert join_files(site) == []


def test_a_bad_template_starts_nothing(hvdrun, site, clean):
    for template, why in (("ssh {host}", "the command must contain {host} and {cmd}"), ("ssh '{host} {cmd}", "a ' is not closed")):
        result = hvdrun([*FOUR, "--bootstrap-cmd", template, "true"], on=site)
        assert result.rc == 2 and why in result.stderr, result


def test_a_stranger_is_sent_away(hvdrun, site, clean):
    job = Watched(hvdrun, site, [*FOUR, "--bootstrap", "manual", *READY])
    words = {host: typed(job, host) for host in ("n1", "n2")}
    first = site.start("n1", "alice", words["n1"])
    stranger = site.run("n3", "alice", [*words["n1"][:-1], "n3"], check=False)
    assert stranger.returncode == 1 and "but the launcher waits for other hosts (" in stranger.stderr, stranger
    second = site.start("n2", "alice", words["n2"])
    job.out.wait_for("ready", 4)
    job.signal(signal.SIGTERM)
    assert job.end().rc == 143
    for command in (first, second):
        command.wait(PATIENCE)


def test_join_files_of_others(site):
    agent = str(BIN_DIR / "muster-agent")
    site.run("n1", "alice", ["sh", "-c", f"mkdir -p {AGENTS}; umask 022; echo x > {AGENTS}/open; : > {AGENTS}/empty; "
                             f"chmod 600 {AGENTS}/empty"], check=True)
    for path, why in ((f"{AGENTS}/open", "must be ours"), (f"{AGENTS}/empty", "not a join file"), ("/nowhere", "No such file"),
                      ("/etc/passwd", "must be ours"), (AGENTS, "no regular file")):
        result = site.run("n1", "alice", [agent, "--join", path])
        assert result.returncode == 1 and why in result.stderr, (path, result)

