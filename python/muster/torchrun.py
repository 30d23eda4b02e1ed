"""The rendezvous back end `muster` of torchrun: torchrun's nodes meet as hvdrun started them.

    hvdrun -np 2 -H n1:1,n2:1 torchrun --rdzv-backend=muster --nproc-per-node=4 train.py

A torch that loads the entry points of the group torchrun.handlers (2.5 and later) finds it by itself. For an older one,
this module starts torchrun with the back end registered:

    hvdrun -np 2 -H n1:1,n2:1 python3 -m muster.torchrun --rdzv-backend=muster --nproc-per-node=4 train.py

Each torchrun is one rank of hvdrun's job. It keeps that rank in all rounds, so the workers' ranks follow hvdrun's host
list. With torch's back end c10d they follow the sorted addresses of the hosts. All nodes take part in each round. A
round is complete when every node has joined it. It needs no clocks, heartbeats or last call, because hvdrun ends the
job when a node is lost.

Threads: one thread at a time uses a Rendezvous. Errors: torch's own RendezvousError classes.
"""

import datetime
import os
import time

BACKEND = "muster"
POLL_SECONDS = 0.05
JOIN_SECONDS = 600  # torch's own default of join_timeout
STORE_SECONDS = 60  # torch's own default of read_timeout


def _number(name):
    """Returns the number that hvdrun has put into this variable."""
    text = os.environ.get(name, "")
    if not text.isdecimal():
        raise ValueError(f"--rdzv-backend=muster needs hvdrun, which sets {name}: run hvdrun -np 2 -H n1:1,n2:1 torchrun "
                         "--rdzv-backend=muster …, or choose another back end")
    return int(text)


def _open_store(endpoint):
    """Returns a client of the job's store. `endpoint` is text such as 10.0.0.1:4000 or [fd00::1]:4000."""
    from torch.distributed import TCPStore

    host, _, port = endpoint.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"--rdzv-endpoint must be HOST:PORT, not '{endpoint}': leave it out, hvdrun sets it")
    return TCPStore(host.strip("[]"), int(port), is_master=False, timeout=datetime.timedelta(seconds=STORE_SECONDS),
                    wait_for_workers=False)


class Rendezvous:
    """A RendezvousHandler of torch: this node in the rounds of one run.

    The store has counters below muster/<run id>/: joined/<n> is the number of nodes that have joined round n, closed is
    above 0 when no round may follow. Counters are all that the stores of old and new torch have in common for this.
    """

    # The workers of rank 0 serve a store for each round. In one store, torch since 2.5 would find keys of earlier rounds.
    use_agent_store = False

    def __init__(self, store, rank, size, run_id, *, local_addr=None, join_seconds=JOIN_SECONDS):
        self._store = store
        self._rank = rank
        self._size = size
        self._run_id = run_id
        self._local_addr = local_addr
        self._join_seconds = join_seconds
        self._round = 0  # the round in which this node is; 0 before the first

    def _count(self, name, more=0):
        """Adds to a counter, and returns its value."""
        return self._store.add(f"muster/{self._run_id}/{name}", more)

    def get_backend(self):
        return BACKEND

    def get_run_id(self):
        return self._run_id

    def is_closed(self):
        return self._count("closed") > 0

    def set_closed(self):
        self._count("closed", 1)

    def shutdown(self):
        """Ends the run: no node can join another round."""
        self.set_closed()
        return True

    def num_nodes_waiting(self):
        """Returns how many nodes have left this round and wait for the others. If any do, the agent starts its workers
        again."""
        return self._count(f"joined/{self._round + 1}")

    def next_rendezvous(self):
        """Waits until all nodes have joined the next round. Returns a RendezvousInfo, or what older torch wants."""
        from torch.distributed import PrefixStore

        self._round += 1
        joined = self._count(f"joined/{self._round}", 1)
        if joined < self._size:
            self._wait_for_all()
        store = PrefixStore(f"muster/{self._run_id}/round/{self._round}", self._store)
        return _info(store, self._rank, self._size, self._local_addr)

    def _wait_for_all(self):
        from torch.distributed.elastic.rendezvous import RendezvousClosedError, RendezvousTimeoutError

        deadline = time.monotonic() + self._join_seconds
        while (joined := self._count(f"joined/{self._round}")) < self._size:
            if self.is_closed():
                raise RendezvousClosedError(f"another node has ended run {self._run_id}")
            if time.monotonic() > deadline:
                raise RendezvousTimeoutError(f"{joined} of {self._size} nodes have joined round {self._round} of run "
                                             f"{self._run_id} within {self._join_seconds} s")
            time.sleep(POLL_SECONDS)


def _info(store, rank, size, local_addr):
    """Returns torch's RendezvousInfo. Before torch 2.4 it was a tuple."""
    from torch.distributed.elastic.rendezvous import api

    if not hasattr(api, "RendezvousInfo"):
        return store, rank, size
    try:
        bootstrap = api.RendezvousStoreInfo.build(rank, store, local_addr)
    except TypeError:  # torch 2.4
        bootstrap = api.RendezvousStoreInfo.build(rank, store)
    return api.RendezvousInfo(store, rank, size, bootstrap)


def create(params):
    """Makes the handler of a RendezvousParameters."""
    rank, size = _number("MUSTER_RANK"), _number("MUSTER_SIZE")
    if not params.min_nodes <= size <= params.max_nodes:
        raise ValueError(f"--nnodes must have room for the {size} torchrun processes that hvdrun has started: leave it out")
    endpoint = params.endpoint or f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}"
    return Rendezvous(_open_store(endpoint), rank, size, params.run_id, local_addr=getattr(params, "local_addr", None),
                      join_seconds=params.get_as_int("join_timeout", JOIN_SECONDS))


def handler():
    """The entry point in the group torchrun.handlers: returns the function that makes handlers."""
    return create


def main():
    """Registers the back end and runs torchrun."""
    from torch.distributed import run
    from torch.distributed.elastic.rendezvous import registry

    from muster import torchrun

    registry.handler_registry.register(BACKEND, torchrun.create)
    run.main()


if __name__ == "__main__":
    main()
