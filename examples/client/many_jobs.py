"""Submits a job for each word at once, and waits for all of them.

    python3 many_jobs.py WORD...
"""
import sys

from muster.client import Client, MusterError, job_request

with Client() as client:
    requests = [job_request(["echo", word], name=word, environment={"PATH": "/usr/bin:/bin"}) for word in sys.argv[1:]]
    results = client.submit_many(requests)
    for word, result in zip(sys.argv[1:], results):
        if isinstance(result, MusterError):
            print(word, "was refused:", result)
        else:
            print(word, "ended with", client.wait(result).exit_code)
