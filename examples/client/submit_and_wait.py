"""Submits a job, waits for its end, and says how it ended.

    python3 submit_and_wait.py [WORD...]
"""
import sys

from muster.client import Client, JobState

with Client() as client:
    job = client.submit(sys.argv[1:] or ["hostname"], size=2, name="example", environment={"PATH": "/usr/bin:/bin"})
    print("submitted", job)
    ended = client.wait(job)
    print(JobState(ended.state).name, "with exit code", ended.exit_code, ended.reason)
    for rank in ended.ranks:
        print("rank", rank.rank, "on", rank.host, "exit code", rank.end.exit_code)
