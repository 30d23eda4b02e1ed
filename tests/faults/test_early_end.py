"""SIGINT or SIGTERM reaches hvdrun while its agents start on four hosts, four jobs at a time: 300 times, at random moments
of the first 0.3 s. Nothing may be left: no process, no session folder, no segment in /dev/shm."""

import concurrent.futures
import random
import signal
import time

from conftest import rounds
from left import Left

ROUNDS = 300
AT_A_TIME = 4
SHAPE = ["-np", "8", "-H", "n1:2,n2:2,n3:2,n4:2"]
SETTLES = 30.0  # an agent that hangs is ended after 20 s


def end_early(hvdrun, moment, signo):
    """A sentence when it does not end as it should."""
    command = hvdrun.start([*SHAPE, "sleep", "1000"])
    time.sleep(moment)  # the moment is what is tried, nothing is waited for
    command.send_signal(signo)
    result = hvdrun.finish(command)
    # An end before hvdrun has blocked its signals is that of any program.
    expected = (128 + signo, -signo)
    return None if result.rc in expected else f"signal {signo} after {moment:.3f} s: {result}"


def test_early_end(hvdrun, cluster):
    hvdrun([*SHAPE, "true"])  # the agent is on every host
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    left = Left(cluster)
    failed = []
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        for begin in range(0, rounds(ROUNDS), AT_A_TIME):
            tried = [(choose.uniform(0.02, 0.3), choose.choice([signal.SIGINT, signal.SIGTERM])) for _ in range(AT_A_TIME)]
            ends = [pool.submit(end_early, hvdrun, *each) for each in tried]
            failed += [f"round {begin}: {end.result()}" for end in ends if end.result()]
            found = left.settle(SETTLES)
            if found:
                failed.append(f"round {begin}, {tried} left\n" + "\n".join(found))
                left = Left(cluster)
    print(f"{rounds(ROUNDS)} early ends, {len(failed)} failed")
    assert not failed, "\n".join(failed)
