"""Lists jobs, page by page, with the longest-running first. Words are a filter.

    python3 list_jobs.py [WORD...]
"""
import sys

from muster.client import Client, JobState

with Client() as client:
    for job in client.jobs(all=True, order="time", filter=" ".join(sys.argv[1:])):
        print(job.id, JobState(job.state).name, job.size, job.name or " ".join(job.command))
