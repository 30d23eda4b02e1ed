#!/usr/bin/python3
"""Programs that hang, each in its own way. Tests of hang reports run them as ranks under hvdrun.

    hang_zoo.py NAME [ARGUMENT]

All ranks meet once and print "up". Then one rank, the culprit, hangs. The others wait for it in the next collective
operation of libmuster or gloo, or in a barrier over sockets.
The line where the culprit hangs ends with the comment "hangs: NAME".
"""

import asyncio
import ctypes
import fcntl
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time

import zoo_ranks


def lock():
    """A rank holds two locks in the wrong order: each thread waits for the lock of the other one."""
    first, second, both = threading.Lock(), threading.Lock(), threading.Barrier(2)

    def other():
        with second:
            both.wait()
            with first:
                pass

    threading.Thread(target=other, daemon=True).start()
    with first:
        both.wait()
        second.acquire()  # hangs: lock


def rank0_sleeps():
    time.sleep(1000)  # hangs: rank0_sleeps


def empty_queue():
    queue.Queue().get()  # hangs: empty_queue


def loop():
    number = 0
    while number >= 0: number = (number + 1) % 1000  # hangs: loop


def extension_spins(library):
    ctypes.CDLL(library).spin()  # hangs: extension_spins


def extension_spins_with_gil(library):
    ctypes.PyDLL(library).spin()  # hangs: extension_spins_with_gil


def extension_sleeps(library):
    ctypes.CDLL(library).doze()  # hangs: extension_sleeps


def stopped():
    os.kill(os.getpid(), signal.SIGSTOP)  # hangs: stopped


def child():
    subprocess.run(["sleep", "1000"], check=True)  # hangs: child


def child_output():
    subprocess.check_output(["sleep", "1000"])  # hangs: child_output


def reads_stdin():
    input("value? ")  # hangs: reads_stdin


def debugger():
    import pdb
    pdb.set_trace()
    return 0  # hangs: debugger


def file_lock():
    """Another process has locked the file."""
    path = f"/tmp/zoo-lock-{os.getpid()}"
    held = subprocess.Popen([sys.executable, "-c", "import fcntl, sys, time; file = open(sys.argv[1], 'w');"
                             "fcntl.flock(file, fcntl.LOCK_EX); print(flush=True); time.sleep(1000)", path],
                            stdout=subprocess.PIPE)
    held.stdout.readline()
    file = open(path, "w", encoding="ascii")
    os.unlink(path)
    fcntl.flock(file, fcntl.LOCK_EX)  # hangs: file_lock


def named_pipe():
    path = f"/tmp/zoo-fifo-{os.getpid()}"
    os.mkfifo(path)
    try:
        open(path, encoding="ascii")  # hangs: named_pipe
    finally:
        os.unlink(path)


def foreign_server():
    """A server outside the job takes the request, and never answers."""
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    client.recv(1)  # hangs: foreign_server


def event_loop():
    async def forever():
        await asyncio.get_running_loop().create_future()

    asyncio.run(forever())  # hangs: event_loop


def waits_for_signal():
    signal.sigwait({signal.SIGUSR1})  # hangs: waits_for_signal


def file_system(folder):
    os.stat(os.path.join(folder, "data"))  # hangs: file_system


def swapped():
    import muster.numpy as hvd
    import numpy as np
    hvd.allreduce(np.ones(1), name="b")  # hangs: swapped
    hvd.allreduce(np.ones(1), name="a")


def torch_missing():
    time.sleep(1000)  # hangs: torch_missing


def torch_swapped():
    import torch.distributed as dist
    dist.barrier()  # hangs: torch_swapped


def torch_key():
    import torch.distributed.distributed_c10d as c10d
    c10d._get_default_store().get("never set")  # hangs: torch_key


def torch_loader():
    """A worker process of the DataLoader hangs."""
    import torch.utils.data

    class Stuck(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            if index == 5:
                time.sleep(1000)
            return index

    for _ in torch.utils.data.DataLoader(Stuck(), num_workers=1):  # hangs: torch_loader
        pass


CULPRITS = {"rank0_sleeps": 0, "reads_stdin": 0, "debugger": 0}


def kind_of(name):
    if name.startswith("torch"):
        return "gloo"
    return "sockets" if name == "lock" else "libmuster"


def main():
    name = sys.argv[1]
    ranks = zoo_ranks.KINDS[kind_of(name)]()
    ranks.meet("ready")
    print("up", flush=True)
    if zoo_ranks.RANK == CULPRITS.get(name, 1):
        globals()[name](*sys.argv[2:])
    ranks.meet("a")
    ranks.meet("b")


if __name__ == "__main__":
    main()
