"""launcherd --accept-agents: hosts that come by themselves, by the join file of launcherd's state directory. launcherd
has no list of hosts here and never logs in anywhere; the hosts share their homes, as sites have it."""

import signal

import pytest
from cluster import testing
from conftest import BIN_DIR
from console import PATIENCE
from launcherd_user import STATE, Launcherd

AGENT = str(BIN_DIR / "muster-agent")
JOIN = f"{STATE}/join"


class Host:
    """A host where alice has started the agent."""

    def __init__(self, cluster, name, *options):
        self.command = cluster.start(name, "alice", [AGENT, "--join", JOIN, *options])

    def end(self):
        self.command.send_signal(signal.SIGTERM)
        self.command.wait(PATIENCE)


@pytest.fixture
def site(make_cluster):
    return make_cluster(home="shared")


@pytest.fixture
def launcherd(hvdrun, site, no_leftovers):
    launcherd = Launcherd(hvdrun, site, "--accept-agents", "7411", hosts=None)
    yield launcherd
    launcherd.close()


@pytest.fixture
def come(site):
    hosts = []

    def call(*args):
        hosts.append(Host(site, *args))
        return hosts[-1]

    yield call
    for host in hosts:
        host.end()


def slots(launcherd):
    return {host["name"]: host["slots"] for host in launcherd.hosts()}


def has_hosts(launcherd, wanted):
    return testing.eventually(lambda: slots(launcherd) == wanted, PATIENCE)


def test_hosts_come_and_run_jobs(launcherd, site, come):
    assert slots(launcherd) == {}
    come("n1", "--slots", "2")
    come("n2", "--slots", "2", "--host", "second")
    assert has_hosts(launcherd, {"n1": 2, "second": 2})
    job = launcherd.submit("-np", "4", "sh", "-c", "echo $MUSTER_RANK on $(hostname)")
    assert launcherd.asked("wait", job) == ""
    said = sorted(line.split(":", 1)[1] for line in launcherd.asked("logs", job).splitlines())
    assert said == ["0 on n1", "1 on n1", "2 on n2", "3 on n2"]
    # Nothing was logged in to: the agents that came are the ones that run.
    started = launcherd.submit("-np", "4", "sh", "-c", "exit 7")
    launcherd.asked("wait", started, code=7)


def test_a_rank_dies_on_a_host_that_came(launcherd, come):
    come("n1", "--slots", "2")
    assert has_hosts(launcherd, {"n1": 2})
    job = launcherd.submit("-np", "2", "sh", "-c", "[ $MUSTER_RANK = 1 ] && kill -9 $$; exec sleep 1000")
    launcherd.asked("wait", job, code=137)


def test_a_job_waits_for_a_host_that_comes(launcherd, come):
    job = launcherd.submit("-np", "2", "true")
    assert launcherd.job(job)["state"] == "JOB_STATE_QUEUED"
    come("n3", "--slots", "2")
    launcherd.asked("wait", job)


def test_a_job_outlives_launcherd_on_a_host_that_came(launcherd, site, come):
    come("n1", "--slots", "1")
    assert has_hosts(launcherd, {"n1": 1})
    gate = "/home/alice/gate"
    site.run("head", "alice", ["rm", "-f", gate], check=True)
    job = launcherd.submit("-np", "1", "sh", "-c", f"echo before; until [ -e {gate} ]; do read -t 0.1 x <> /dev/zero; "
                           "done; echo after; exit 5")
    assert testing.eventually(lambda: "before" in launcherd.asked("logs", job), PATIENCE)
    launcherd.die()
    launcherd.come_back()
    assert slots(launcherd) == {"n1": 1}
    site.run("head", "alice", ["touch", gate], check=True)
    launcherd.asked("wait", job, code=5)
    assert launcherd.asked("logs", job).splitlines()[-1].endswith("after")


def test_an_agent_without_a_job_finds_the_next_launcherd(launcherd, come):
    come("n2", "--slots", "2")
    assert has_hosts(launcherd, {"n2": 2})
    launcherd.die()
    launcherd.come_back()
    job = launcherd.submit("-np", "2", "hostname")
    launcherd.asked("wait", job)
    assert launcherd.asked("logs", job).count("n2") == 2


def test_another_host_of_the_same_name_is_sent_away(launcherd, site, come):
    come("n1", "--slots", "2")
    assert has_hosts(launcherd, {"n1": 2})
    for host in ("n2", "n1"):
        other = site.run(host, "alice", [AGENT, "--join", JOIN, "--host", "n1"])
        assert other.returncode == 1 and "refused a second agent of host n1 from" in other.stderr, other
    assert slots(launcherd) == {"n1": 2}


def test_a_join_file_on_a_shared_disk(hvdrun, site, no_leftovers):
    shared = "/home/alice/lab-join"
    launcherd = Launcherd(hvdrun, site, "--accept-agents", "7412", "--join-file", shared, hosts=None)
    try:
        command = site.start("n1", "alice", [AGENT, "--join", shared, "--slots", "3"])
        assert has_hosts(launcherd, {"n1": 3})
        command.send_signal(signal.SIGTERM)
        command.wait(PATIENCE)
    finally:
        launcherd.close()
        site.run("head", "alice", ["rm", "-f", shared], check=True)


def test_bad_words(launcherd, site):
    for words, why in ((["--slots", "0"], "--slots takes a number"), (["--slots", "x"], "--slots takes a number"),
                       (["--slot", "2"], "usage: muster-agent --join FILE")):
        result = site.run("n1", "alice", [AGENT, "--join", JOIN, *words])
        assert result.returncode == 1 and why in result.stderr, (words, result)
    for value in ("x", "70000", "nohost:1", "1:2:3"):
        result = site.run("head", "alice", [str(BIN_DIR / "launcherd"), "--accept-agents", value])
        assert result.returncode == 2 and "--accept-agents" in result.stderr, (value, result)
