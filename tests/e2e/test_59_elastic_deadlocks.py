"""Changes of hosts at which Horovod's own launcher hangs or loses the job, and hvdrun must not. Each test names the
reports of Horovod's users. Ranks are those of libmuster's drop-in, and of the real horovod 0.28.1 where `tools/peers
horovod` has installed it.

MUSTER_TEST_HOROVODRUN=1 runs the same with Horovod's own launcher, horovodrun, to see at which it fails: a passing test
there means that the fault does not show. Some of them hang for minutes."""

import os
import time

import pytest
from cluster import testing
from elastic_site import PEER, Site, done

# Gloo's time limit, which is how long a rank of the real horovod waits for a silent peer; its default is 30 s.
GLOO_LIMIT = 4
LEASE = 15.0  # hvdrun's
IS_LONG = os.environ.get("MUSTER_SLOW") == "1"
KINDS = ["drop-in", "horovod"]
if os.environ.get("MUSTER_TEST_HOROVODRUN") == "1":
    KINDS, IS_LONG = ["horovodrun", "eager"], True
LIMIT = 300 if "horovodrun" in KINDS else 60  # a job that stands still so long hangs


@pytest.fixture(params=KINDS)
def site(request, hvdrun, make_cluster):
    """All hosts have interfaces of the same name, and their own names are addresses: horovodrun needs that."""
    if request.param != "drop-in" and not (PEER / "python").exists():
        pytest.skip("horovod is not installed: tools/peers horovod")
    if request.param == "eager" and "two_changes" not in request.node.name:
        pytest.skip("how often horovodrun asks for hosts does not matter here")
    cluster = make_cluster(4, same_nics=True)
    for host in cluster.nodes:
        names = cluster.path(host, "/etc/hosts")
        names.write_text("".join(line for line in names.read_text().splitlines(True) if not line.startswith("127.0.1.1")))
    if request.param in ("drop-in", "horovod"):
        request.getfixturevalue("no_leftovers")
    made = Site(hvdrun, cluster, request.param)
    yield made
    if request.param not in ("drop-in", "horovod"):
        hvdrun.close()
        made.clear()


def discovered(site, first, most):
    return ["-np", str(first), "--min-np", "1", "--max-np", str(most), "--host-discovery-script", site.script]


def test_a_host_leaves_and_another_comes_at_once(site):
    """elastic.md A11 number 1, horovod#3494: survivors of a removal skip sync(), which the new ranks then wait for."""
    site.hosts("n1:1", "n2:1")
    job = site.start(discovered(site, 2, 2), ["--handover", "4"])
    job.up(2)
    site.started()
    site.hosts("n1:1")
    site.wait_for_calls(2)
    site.hosts("n1:1", "n3:1")
    job.out.wait_for(r"up \d of 2 at [1-9]\d* on n3", timeout=LIMIT)
    assert sorted(done(site.stop(job))) == ["n1", "n3"]


def test_a_new_rank_starts_slowly(site):
    """Number 2, horovod#2652: survivors wait for a new rank no longer than Gloo's limit, and end."""
    site.hosts("n1:1")
    job = site.start(discovered(site, 1, 2), ["--late", f"n2:{2 * GLOO_LIMIT}"],
                     env={"HOROVOD_GLOO_TIMEOUT_SECONDS": GLOO_LIMIT})
    job.up(1)
    site.started()
    site.hosts("n1:1", "n2:1")
    job.out.wait_for("late")
    job.up(2)
    assert sorted(done(site.stop(job))) == ["n1", "n2"]


def test_a_new_rank_dies_before_it_joins(site):
    """Number 3: survivors wait for a new rank that has ended, and end too."""
    site.hosts("n1:2")
    job = site.start(discovered(site, 2, 4), ["--dies", "n2"], env={"HOROVOD_GLOO_TIMEOUT_SECONDS": GLOO_LIMIT})
    job.up(2)
    site.started()
    site.hosts("n1:2", "n2:1")
    job.up(2, times=2)
    assert done(site.stop(job)) == ["n1", "n1"]


@pytest.mark.parametrize("how", ["frozen", "cut"])
def test_a_host_falls_silent(site, how):
    """Number 4: the driver waits for the ranks of a host whose ssh has not ended."""
    if (site.kind, how) in (("drop-in", "frozen"), ("horovod", "cut")) and not IS_LONG:
        pytest.skip("MUSTER_SLOW=1 runs it")
    job = site.start(["-np", "3", "--min-np", "1", "-H", "n1:1,n2:1,n3:1"],
                     env={"HOROVOD_GLOO_TIMEOUT_SECONDS": GLOO_LIMIT})
    job.up(3)
    begin = time.monotonic()
    if how == "cut":
        site.cluster.cut("n3")
    else:
        site.freeze("n3")
    try:
        job.up(2, timeout=LIMIT)
        taken = time.monotonic() - begin
        assert sorted(done(site.stop(job))) == ["n1", "n2"]
        assert taken < LEASE + (25 if site.kind == "drop-in" else 10)  # see docs/horovod.md, what does not work yet
    finally:
        site.thaw("n3")
        site.cluster.heal("n3")
        if how == "cut":
            site.end_sessions("n3")


def test_two_changes_within_a_second(site):
    """Number 7: a rank drops a notice that has the time of the one before, in whole seconds."""
    if site.kind == "horovod":
        pytest.skip("the launcher's part is the same as with the drop-in")
    site.hosts("n1:1", "n2:1", "n3:1")
    job = site.start(discovered(site, 3, 3), ["--step", "0.02"])
    job.up(3)
    testing.eventually(lambda: time.time() % 1 < 0.1, 2)
    site.hosts("n1:1", "n2:1")
    if site.kind == "eager":  # the first change is over before the second comes
        job.up(2)
    site.hosts("n1:1")
    job.out.wait_for("up 0 of 1 at", timeout=20)
    assert done(site.stop(job)) == ["n1"]


def check_answers(site, answers):
    """The script gives each answer once, and the ranks stay as they are."""
    site.hosts("n1:1", "n2:1")
    job = site.start(discovered(site, 2, 2))
    job.up(2)
    for each in answers:
        site.answer_once(each)
        site.wait_for_calls(4)
        assert site.answered(), each
    result = site.stop(job)
    assert sorted(done(result)) == ["n1", "n2"], result
    assert [size for size, _ in job.worlds()] == [2], result


ANSWERS = {"fails": "exit 1", "nothing": "true", "fewer-hosts": "echo n1:1", "slow": "sleep 3; cat hosts",
           "nonsense": "echo n1:x"}


@pytest.mark.parametrize("answers", [list(ANSWERS)] if "drop-in" in KINDS else [[each] for each in ANSWERS], ids=",".join)
def test_bad_answers_of_the_script(site, answers):
    """Number 10, horovod#2484: one bad answer counts as a removal of hosts, and sends all ranks through a reset."""
    if site.kind == "horovod":
        pytest.skip("the launcher's part is the same as with the drop-in")
    check_answers(site, [ANSWERS[each] for each in answers])
