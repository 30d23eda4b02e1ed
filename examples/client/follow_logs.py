"""Shows the output of a job while it comes. Goes on where it was if launcherd restarts.

    python3 follow_logs.py JOB
"""
import sys

from muster.client import Client

with Client() as client:
    for chunk in client.logs(sys.argv[1], follow=True):
        for line in chunk.data.decode(errors="replace").splitlines():
            print(f"[{chunk.rank}] {line}", flush=True)
