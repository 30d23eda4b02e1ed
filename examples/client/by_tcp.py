"""Asks a launcherd on another machine, with the certificate of the role watch (docs/operations.md, "Sockets").

    python3 by_tcp.py HOST:PORT CERTIFICATE KEY AUTHORITY
"""
import sys

from muster.client import Client, PermissionDenied, TlsFiles

with Client(sys.argv[1], tls=TlsFiles(*sys.argv[2:5]), timeout=30) as client:
    print("launcherd", client.capabilities().version, "has", sum(host.slots for host in client.hosts()), "slots")
    try:
        client.submit(["true"])
    except PermissionDenied as error:
        print("may not submit:", error)
