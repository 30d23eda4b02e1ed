"""launcherd is killed by kill -9 while 1,000 ranks start, and again while they end: each rank starts once and ends once, and
no event is lost or comes twice."""
import collections
import os
import random

RANKS = 1000


def check(events):
    """The numbers count up, and no rank starts or ends twice. The ranks that started and ended."""
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    starts = collections.Counter(event.rank_up.rank for event in events if event.HasField("rank_up"))
    ends = collections.Counter(event.rank_ended.rank for event in events if event.HasField("rank_ended"))
    assert set(starts.values()) | set(ends.values()) <= {1}, (starts.most_common(3), ends.most_common(3))
    order = {}
    for event in events:
        if event.HasField("rank_up"):
            order[event.rank_up.rank] = event.rank_up.pid
        elif event.HasField("rank_ended"):
            assert order[event.rank_ended.rank] == event.rank_ended.pid, "a rank ends after its start"
    return set(starts), set(ends)


def die_after(daemon, job, kind, count):
    """Kills launcherd once a client has seen so many events of this kind."""
    seen = 0
    for event in daemon.client().watch(job):
        seen += event.HasField(kind)
        if seen == count:
            break
    daemon.end("KILL")


def test_launcherd_dies_while_ranks_start_and_end(launcherd, tmp_path):
    chance = random.Random(os.environ.get("MUSTER_SEED", "7"))
    go = tmp_path / "go"
    daemon = launcherd(slots=RANKS)
    program = f"while [ ! -e {go} ]; do sleep 3; done"
    job = daemon.client().submit(["sh", "-c", program], size=RANKS)
    die_after(daemon, job, "rank_up", chance.randint(1, 900))
    daemon = launcherd(slots=RANKS)
    starts, ends = check(daemon.client().until(job, "RUNNING"))
    assert (starts, ends) == (set(range(RANKS)), set())
    pids = {rank.pid for rank in daemon.client().get(job).ranks}
    assert len(pids) == RANKS
    go.touch()
    die_after(daemon, job, "rank_ended", chance.randint(1, 900))
    daemon = launcherd(slots=RANKS)
    events = list(daemon.client().watch(job))
    starts, ends = check(events)
    assert starts == ends == set(range(RANKS))
    assert events[-1].job_ended.exit_code == 0
    ranks = daemon.client().get(job).ranks
    assert {rank.pid for rank in ranks} == pids and {rank.end.exit_code for rank in ranks} == {0}
