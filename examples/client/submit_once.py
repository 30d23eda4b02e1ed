"""Submits a job that no second run of this script submits again: the request_id is the caller's own.

    python3 submit_once.py ID
"""
import sys

from muster.client import AlreadyExists, Client

with Client() as client:
    try:
        job = client.submit(["true"], request_id=sys.argv[1], environment={"PATH": "/usr/bin:/bin"})
    except AlreadyExists as error:
        sys.exit(f"another job has this id: {error}")
    print(job)
