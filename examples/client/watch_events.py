"""Prints what happens to a job: its states, its hosts, the ends of its ranks.

    python3 watch_events.py JOB
"""
import sys

from muster.client import Client, JobState

with Client() as client, client.watch(sys.argv[1]) as events:
    for event in events:
        kind = event.WhichOneof("body")
        if kind == "job_state_changed":
            print(event.sequence, JobState(event.job_state_changed.state).name, event.job_state_changed.reason)
        elif kind == "rank_ended":
            print(event.sequence, "rank", event.rank_ended.rank, "ended with", event.rank_ended.exit_code)
        else:
            print(event.sequence, kind)
