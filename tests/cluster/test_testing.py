"""The checks that every end-to-end test relies on do notice what they are for."""

import pytest

from cluster import testing

DAEMON = "(setsid sleep 1000 </dev/null >/dev/null 2>&1 &) ; exit 0"


@pytest.fixture
def leftovers(cluster):
    return testing.Leftovers(cluster)


def test_nothing_left(cluster, leftovers):
    cluster.run("head", "alice", ["ssh", "n1", "mkdir -p /tmp/muster-2001; hostname"], check=True)
    leftovers.check()


@pytest.mark.parametrize("user", ["alice", "root"])
def test_a_daemon_is_noticed_and_removed(cluster, leftovers, user):
    cluster.run("head", user, ["ssh", "n3", DAEMON], check=True)
    with pytest.raises(AssertionError, match=r"left behind:\nn3: pid \d+ uid \d+ S sleep 1000"):
        leftovers.check(timeout=0.2)
    leftovers.check()


def test_a_session_folder_is_noticed(cluster, leftovers):
    cluster.run("n2", "alice", ["mkdir", "-p", "/tmp/muster-2001/job-agent"], check=True)
    with pytest.raises(AssertionError, match="n2: /tmp/muster-2001/job-agent"):
        leftovers.check(timeout=0.1)
    cluster.run("n2", "alice", ["rm", "-r", "/tmp/muster-2001"], check=True)
    leftovers.check()


def test_bobs_processes_and_sessions_are_not_leftovers(cluster, leftovers):
    with cluster.start("head", "bob", ["ssh", "n1", "sleep 98765"]) as session:
        assert testing.eventually(lambda: testing.strays(cluster, "98765", ["n1"]), 30)
        cluster.run("n2", "bob", ["mkdir", "-p", "/tmp/muster-2002/job-agent"], check=True)
        leftovers.check(timeout=0)
        for _, process in testing.strays(cluster, "98765"):
            assert process.uid == cluster.uid("bob")
        session.kill()
    cluster.run("n1", "bob", ["pkill", "-u", "bob", "sleep"])


def test_the_bystander_notices_every_touch(cluster):
    bystander = testing.Bystander(cluster)
    try:
        assert {host for host, _ in testing.strays(cluster, testing.BYSTANDER_JOB)} == set(cluster.hosts)
        bystander.check()
        alive = cluster.path("n1", f"/tmp/muster-{cluster.uid('bob')}/{testing.BYSTANDER_JOB}-n1/alive")
        alive.write_text("changed\n")
        with pytest.raises(AssertionError, match="n1 changed"):
            bystander.check()
        alive.write_text("kept\n")
        cluster.run("n2", "root", ["pkill", "-9", "sleep"], check=True)
        assert testing.eventually(lambda: not testing.strays(cluster, testing.BYSTANDER_JOB, ["n2"]), 5)
        with pytest.raises(AssertionError, match="bob's process on n2 ended with -9"):
            bystander.check()
        bystander.restore()
        bystander.check()
    finally:
        bystander.stop()
