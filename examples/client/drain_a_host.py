"""Takes a host out of service, waits until no job runs there, and gives it back. Needs the role admin over TCP.

    python3 drain_a_host.py HOST
"""
import sys

from muster.client import Client, NotFound

with Client() as client:
    try:
        client.drain(sys.argv[1], reason="maintenance")
    except NotFound as error:
        sys.exit(str(error))
    for job in client.jobs():
        if sys.argv[1] in [host.name for host in client.get(job.id, ranks=False).hosts]:
            print("waits for", client.wait(job.id).id)
    print("nothing runs on", sys.argv[1])
    client.resume(sys.argv[1])
