"""A rank of bench/elastic, and the place where ranks meet. Both import nothing unless told to, so the launchers alone are measured.

    elastic_rank.py HOST PORT          a rank: it meets the others, and ends with 1 when one of them is gone
    elastic_rank.py HOST PORT MODULE   the same, but it imports MODULE first
    elastic_rank.py PORT_FILE          the place: it writes its port, then a line "SIZE" whenever a world is complete
"""

import importlib
import os
import select
import socket
import sys


def rank(host, port):
    with socket.create_connection((host, int(port)), 30) as peer:
        peer.settimeout(None)
        size = os.environ["WORLD_SIZE"]
        peer.sendall(f"{os.environ['RANK']} {size}\n".encode())
        while peer.recv(1):  # like a collective, it waits until all are there, and fails when a peer is gone
            pass
    sys.exit(1)


def read_member(member):
    """(rank, size); None while the line is not there, or if the connection has ended."""
    line = member.recv(100, socket.MSG_PEEK)
    return tuple(int(word) for word in line.split()) if line.endswith(b"\n") else None


class Place:
    def __init__(self):
        self.listener = socket.create_server(("", 0))
        self.unknown = set()  # connections without a rank
        self.members = {}     # rank: connection

    def end_world(self):
        for member in self.members.values():
            member.close()
        self.members = {}

    def serve(self):
        ready = select.select([self.listener, *self.unknown, *self.members.values()], [], [])[0]
        if any(member in ready for member in self.members.values()):  # a member sends nothing more, so it has ended
            self.end_world()
        if self.listener in ready:
            self.unknown.add(self.listener.accept()[0])
        for member in [each for each in self.unknown if each in ready]:
            self.unknown.discard(member)
            found = read_member(member)
            if found is None:
                member.close()
                continue
            member.recv(100)
            if found[0] in self.members:  # a rank of the next world: the old one is over
                self.end_world()
            self.members[found[0]] = member
            if len(self.members) == found[1]:
                print(found[1], flush=True)


def main():
    if len(sys.argv) > 2:
        for module in sys.argv[3:]:
            importlib.import_module(module)
        rank(*sys.argv[1:3])
    place = Place()
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(str(place.listener.getsockname()[1]))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    while True:
        place.serve()


main()
