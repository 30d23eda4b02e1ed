"""A worker of an elastic job that speaks the protocol of horovod 0.28.1's workers, without Horovod: it meets its peers by
the keys, exchanges a byte with each of them in every step, and asks for new numbers when it loses one of them.

    elastic_worker.py STEPS RANK:STEP[:exit|abort|ask]...

These ranks of generation 0 end at that step: by SIGKILL, with 1, or by SIGABRT. With `ask` they ask for new numbers.
WORKER_PATIENCE limits each wait for a peer. A process that joins later sleeps WORKER_IMPORTS seconds first, and ends with
WORKER_JOINS if that is not 0. WORKER_CHAOS is the probability that a process ends in a step.
"""

import http.client
import os
import random
import signal
import socket
import sys
import time

CHAOS = float(os.environ.get("WORKER_CHAOS", "0"))
PATIENCE = float(os.environ.get("WORKER_PATIENCE", "30"))
STEP_TIME = 0.02


def request(verb, path, body=None):
    """The value, or None if there is no such key. Three tries, as Horovod's client."""
    for _ in range(3):
        connection = http.client.HTTPConnection(os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"],
                                                int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"]))
        connection.request(verb, path, body)
        answer = connection.getresponse()
        value = answer.read()
        connection.close()
        if answer.status in (200, 404):
            return value if answer.status == 200 else None
        time.sleep(0.5)
    sys.exit("the rendezvous server fails")


def own_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((os.environ["MASTER_ADDR"], 9))
        return probe.getsockname()[0]


def receive(peer, size):
    data = b""
    while len(data) < size:
        more = peer.recv(size - len(data))
        if not more:
            raise ConnectionError("a peer has gone")
        data += more
    return data


def join(rank, size):
    """A connection to each other rank. As Gloo, it first puts rank_<r>, by which the launcher sees a new process."""
    request("PUT", f"/global/rank_{rank}", own_address())
    listening = socket.create_server(("", 0), backlog=size)
    listening.settimeout(PATIENCE)
    request("PUT", f"/global/{rank}", f"{own_address()} {listening.getsockname()[1]}")
    peers = {}
    for other in range(rank):
        end = time.monotonic() + PATIENCE
        while (value := request("GET", f"/global/{other}")) is None:
            if time.monotonic() > end:
                sys.exit(f"rank {other} has not come")
            time.sleep(0.01)
        host, port = value.decode().split()
        peers[other] = socket.create_connection((host, int(port)), PATIENCE)
        peers[other].sendall(rank.to_bytes(4, "big"))
    while len(peers) < size - 1:
        peer, _ = listening.accept()
        peer.settimeout(PATIENCE)
        peers[int.from_bytes(receive(peer, 4), "big")] = peer
    listening.close()
    return peers


def exchange(peers, number):
    """What each rank has sent."""
    for peer in peers.values():
        peer.sendall(number.to_bytes(4, "big"))
    return {rank: int.from_bytes(receive(peer, 4), "big") for rank, peer in peers.items()}


def main(steps, faults):
    rank, size = int(os.environ["HOROVOD_RANK"]), int(os.environ["HOROVOD_SIZE"])
    local_rank, generation, step = int(os.environ["HOROVOD_LOCAL_RANK"]), int(os.environ["MUSTER_GENERATION"]), 0
    assert os.environ["HOROVOD_ELASTIC"] == "1"
    if generation > 0:
        time.sleep(float(os.environ.get("WORKER_IMPORTS", "0")))
        if int(os.environ.get("WORKER_JOINS", "0")) != 0:
            sys.exit(int(os.environ["WORKER_JOINS"]))
    while True:
        peers = join(rank, size)
        try:
            step = exchange(peers, step).get(0, step)  # rank 0's state counts
            print(f"generation {generation} rank {rank} of {size} at step {step}", flush=True)
            while step < steps:
                fault = faults.get((rank, step)) if generation == 0 else None
                if fault == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if fault == "exit":
                    sys.exit(1)
                if fault == "abort":
                    os.abort()
                if fault == "ask":
                    raise ConnectionError("this rank wants a new world")
                if random.random() < CHAOS:
                    os.kill(os.getpid(), random.choice([signal.SIGKILL, signal.SIGABRT, signal.SIGTERM]))
                exchange(peers, step)
                step += 1
                time.sleep(STEP_TIME)
            print(f"done rank {rank} of {size} at step {step}", flush=True)
            return
        except OSError:
            pass
        for peer in peers.values():
            peer.close()
        numbers = request("GET", f"/rank_and_size/{os.environ['HOROVOD_HOSTNAME']}:{local_rank}")
        rank, size, local_rank = (int(word) for word in numbers.decode().split(",")[:3])
        generation += 1
        if rank < 0:
            sys.exit("removed from the job")


def parse_fault(word):
    rank, step, *what = word.split(":")
    return (int(rank), int(step)), what[0] if what else "kill"


if __name__ == "__main__":
    main(int(sys.argv[1]), dict(parse_fault(word) for word in sys.argv[2:]))
