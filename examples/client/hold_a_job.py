"""Submits a job that waits, shows that it does, and lets it run: for example when its input is there.

    python3 hold_a_job.py
"""
from muster.client import Client

with Client() as client:
    job = client.submit(["true"], held=True, environment={"PATH": "/usr/bin:/bin"})
    print("held:", client.get(job).held)
    client.release(job)
    print("exit code:", client.wait(job).exit_code)
