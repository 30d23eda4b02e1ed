"""How the ranks of hang_zoo.py and healthy_zoo.py meet: through libmuster, gloo or sockets."""

import os
import socket
import time

RANK, SIZE = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


class Strangers:
    """Ranks that never meet."""

    def meet(self, name="step"):
        pass

    def leave(self):
        pass


class Libmuster(Strangers):
    def __init__(self):
        import muster.numpy as hvd
        hvd.init()

    def meet(self, name="step"):
        import muster.numpy as hvd
        import numpy as np
        hvd.allreduce(np.ones(1), name=name)


class Gloo(Strangers):
    def __init__(self):
        import torch.distributed as dist
        dist.init_process_group("gloo")

    def meet(self, name="step"):
        import torch
        import torch.distributed as dist
        dist.all_reduce(torch.ones(1))

    def leave(self):
        import torch.distributed as dist
        dist.destroy_process_group()


class Sockets(Strangers):
    """A barrier of rank 0, which has a connection to each other rank."""

    def __init__(self):
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        if RANK == 0:
            listener = socket.create_server(address, backlog=SIZE)
            self._peers = [listener.accept()[0] for _ in range(SIZE - 1)]
            return
        while True:
            try:
                self._peers = [socket.create_connection(address)]
                return
            except ConnectionRefusedError:
                time.sleep(0.05)

    def meet(self, name="step"):
        if RANK == 0:
            for peer in self._peers:
                peer.recv(1)
            for peer in self._peers:
                peer.sendall(b"x")
        else:
            self._peers[0].sendall(b"x")
            self._peers[0].recv(1)


KINDS = {"libmuster": Libmuster, "gloo": Gloo, "sockets": Sockets, "strangers": Strangers}
