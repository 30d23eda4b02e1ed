#!/usr/bin/python3
"""Healthy programs that write nothing for a long time. Tests of hang reports run them as ranks under hvdrun.

    healthy_zoo.py NAME

All ranks meet. Then one rank works for `work_seconds()`, and the others wait for it in the next collective operation.
Programs for all ranks work on each of them.
"""

import asyncio
import collections
import concurrent.futures
import ctypes
import decimal
import hashlib
import importlib
import io
import json
import multiprocessing
import os
import pathlib
import pickle
import random
import re
import select
import shutil
import socket
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

import zoo_ranks

Program = collections.namedtuple("Program", "run kind rank")
PROGRAMS = {}


def program(kind, rank=None):
    """Adds the function. kind: how the ranks meet (zoo_ranks.py). rank: the one that works; all ranks without it."""
    def add(run):
        PROGRAMS[run.__name__] = Program(run, kind, rank)
        return run
    return add


def work_seconds():
    return float(os.environ.get("ZOO_SECONDS", "10"))


def turns(part=1.0):
    """Yields 0, 1, 2… until the work is done."""
    end = time.monotonic() + part * work_seconds()
    turn = 0
    while time.monotonic() < end:
        yield turn
        turn += 1


# ---- work of one rank, in more than one function ----

def forward(number):
    return sum(i * i for i in range(number))


def score(number):
    return max(str(i) for i in range(number))


@program("libmuster", 0)
def evaluation():
    for _ in turns():
        forward(20000)
        score(20000)


@program("gloo", 0)
def evaluation_while_others_are_in_gloo():
    evaluation()


@program("sockets", 0)
def evaluation_while_others_read():
    evaluation()


@program("libmuster", 1)
def imports():
    names = ["json.decoder", "email.message", "xml.dom.minidom", "http.client", "asyncio.base_events", "decimal",
             "unittest.mock", "argparse", "typing", "ast"]
    for turn in turns():
        importlib.reload(importlib.import_module(names[turn % len(names)]))


@program("sockets", 1)
def first_imports():
    """New processes, as a loader that imports anew."""
    for _ in turns():
        subprocess.run([sys.executable, "-c", "import numpy, unittest.mock, xml.dom.minidom"], check=True)


@program("libmuster", 0)
def checkpoint():
    state = {f"layer{i}": os.urandom(1 << 20) for i in range(16)}
    with tempfile.TemporaryDirectory() as folder:
        for turn in turns():
            path = pathlib.Path(folder, str(turn % 2))
            with open(path, "wb") as file:
                pickle.dump(state, file)
                file.flush()
                os.fsync(file.fileno())
            shutil.copyfile(path, f"{path}.kept")


@program("gloo", 0)
def checkpoint_of_torch():
    import torch
    state = {f"layer{i}": torch.randn(1 << 18) for i in range(8)}
    for _ in turns():
        torch.save(state, io.BytesIO())


@program("libmuster", 1)
def archive():
    with tempfile.TemporaryDirectory() as folder:
        for number in range(50):
            pathlib.Path(folder, f"{number}").write_bytes(os.urandom(4096))
        for _ in turns():
            with tarfile.open(fileobj=io.BytesIO(), mode="w:gz") as archived:
                archived.add(folder)


def insert(base, turn):
    base.executemany("insert into samples values (?, ?)", ((f"{turn}", random.random()) for _ in range(1000)))


def query(base):
    base.execute("select count(*), avg(value) from samples group by name").fetchall()
    base.execute("delete from samples")


def summarize():
    return sorted(str(i) for i in range(2000))


@program("sockets", 1)
def database():
    base = sqlite3.connect(":memory:")
    base.execute("create table samples (name text, value real)")
    for turn in turns():
        insert(base, turn)
        query(base)
        summarize()


@program("gloo", 1)
def parsing():
    text = json.dumps([{"name": str(i), "words": list(map(str, range(20)))} for i in range(500)])
    for _ in turns():
        [re.sub(r"\d", "x", " ".join(each["words"])) for each in json.loads(text)]


@program("libmuster", 2)
def walk_of_files():
    for _ in turns():
        for folder, _, names in os.walk("/usr/share/doc"):
            for name in names:
                os.lstat(os.path.join(folder, name))


@program("sockets", 0)
def long_arithmetic():
    for turn in turns():
        decimal.getcontext().prec = 200 + turn % 10
        sum(decimal.Decimal(i).sqrt() for i in range(1, 300))


# ---- work of one rank in one function, or in one call: shorter than three time limits ----

@program("libmuster", 1)
def short_loop():
    total = 0
    for turn in turns(0.45):
        total = (total + turn) % 1000


@program("libmuster", 0)
def short_call():
    end = time.monotonic() + 0.4 * work_seconds()
    iter_until = iter(lambda: time.monotonic() > end, True)
    collections.deque(iter_until, maxlen=0)


@program("gloo", 1)
def short_digest():
    hashlib.pbkdf2_hmac("sha256", b"word", b"salt", 1 + int(1.2e5 * work_seconds()))


# ---- threads and processes of one rank that work ----

@program("libmuster", 0)
def thread():
    worker = threading.Thread(target=evaluation)
    worker.start()
    worker.join()


@program("sockets", 1)
def pool_of_threads():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for _ in turns():
            list(pool.map(lambda data: hashlib.sha256(data).digest(), [bytes(1 << 22)] * 4))


@program("libmuster", 2)
def pool_of_processes():
    with multiprocessing.Pool(2) as pool:
        for _ in turns():
            pool.map(forward, [20000] * 8)


@program("gloo", 0)
def forked_child():
    pid = os.fork()
    if pid == 0:
        evaluation()
        os._exit(0)
    os.waitpid(pid, 0)


@program("libmuster", 1)
def make():
    """A build with several commands at a time."""
    with tempfile.TemporaryDirectory() as folder:
        rules = "all: a b c\na b c:\n\t@timeout {} sh -c 'while :; do :; done' || true\n"
        pathlib.Path(folder, "Makefile").write_text(rules.format(work_seconds()))
        subprocess.run(["make", "-s", "-j3", "-C", folder], check=True)


@program("sockets", 2)
def shell_commands():
    subprocess.run(["sh", "-c", f"end=$(($(date +%s) + {work_seconds():.0f}));"
                    "while [ $(date +%s) -lt $end ]; do seq 1000 | sort -r | sha256sum >/dev/null; done"], check=True)


@program("libmuster", 0)
def pipeline():
    """Reads what its child computes."""
    end = work_seconds()
    child = subprocess.Popen(["timeout", f"{end}", "sh", "-c", "seq 100000000 | gzip"], stdout=subprocess.PIPE)
    while child.stdout.read(1 << 16):
        pass
    child.wait()


@program("gloo", 1)
def loader():
    import torch.utils.data

    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return 1 << 20

        def __getitem__(self, index):
            return forward(50000)

    end = time.monotonic() + work_seconds()
    for _ in torch.utils.data.DataLoader(Slow(), num_workers=2):
        if time.monotonic() > end:
            break


# ---- bytes that come slowly ----

def slow_server(between, size):
    """A server outside the job's ranks that sends `size` bytes, and waits `between` seconds."""
    server = socket.create_server(("127.0.0.1", 0))
    if os.fork() == 0:
        connection = server.accept()[0]
        try:
            for _ in turns():
                connection.sendall(bytes(size))
                select.select([], [], [], between)
        finally:
            os._exit(0)
    return server.getsockname()


@program("sockets", 1)
def download():
    client = socket.create_connection(slow_server(0.002, 1 << 16))
    while client.recv(1 << 16):
        pass


@program("libmuster", 1)
def download_while_others_are_in_libmuster():
    client = socket.create_connection(slow_server(0.001, 1 << 18))
    digest = hashlib.sha256()
    while data := client.recv(1 << 16):
        digest.update(data)


# ---- all ranks work ----

@program("strangers")
def sleepers():
    time.sleep(work_seconds())


@program("strangers")
def spinners():
    for _ in turns():
        pass


@program("strangers")
def matrices():
    import numpy as np
    matrix = np.ones((200, 200))
    for _ in turns():
        matrix = matrix @ matrix % 7


@program("libmuster")
def epochs():
    """Steps without output."""
    import muster.numpy as hvd
    import numpy as np
    steps = 1
    while steps:
        forward(20000)
        steps = hvd.broadcast(np.array([time.monotonic() < STARTED + work_seconds()]), 0, name="goes on")[0]


@program("libmuster")
def slow_loader():
    """Rank 1 sleeps longer than the others in each step."""
    import muster.numpy as hvd
    import numpy as np
    goes_on = True
    while goes_on:
        if zoo_ranks.RANK == 1:
            time.sleep(1.2)
        goes_on = hvd.broadcast(np.array([time.monotonic() < STARTED + work_seconds()]), 0, name="goes on")[0]


@program("libmuster")
def polled_operations():
    import muster.numpy as hvd
    import numpy as np
    goes_on = True
    while goes_on:
        handle = hvd.allreduce_async(np.array([float(time.monotonic() < STARTED + work_seconds())]), name="polled")
        while not hvd.poll(handle):
            pass
        goes_on = hvd.synchronize(handle)[0] > 0


@program("libmuster", 1)
def heartbeats():
    import muster
    for turn in turns():
        muster.heartbeat(turn)
        time.sleep(0.5)


@program("strangers")
def heartbeats_alone():
    heartbeats()


@program("gloo")
def training():
    import torch
    import torch.distributed as dist
    network = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
    network = torch.nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.SGD(network.parameters(), 0.01)
    goes_on = torch.ones(1)
    while goes_on.item():
        optimizer.zero_grad()
        network(torch.randn(256, 64)).square().mean().backward()
        optimizer.step()
        goes_on = torch.tensor([float(time.monotonic() < STARTED + work_seconds())])
        dist.broadcast(goes_on, 0)


@program("sockets")
def steps_over_sockets():
    """Ranks that pass bytes on, with work between them."""
    for _ in range(int(2 * work_seconds())):
        forward(200000)
        RANKS.meet()


@program("strangers")
def one_rank_ends_early():
    if zoo_ranks.RANK > 0:
        evaluation()


@program("strangers")
def servers():
    """Each rank serves, and no client comes."""
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(work_seconds())
    try:
        server.accept()
    except TimeoutError:
        pass


@program("sockets")
def server_and_workers():
    """Rank 0 answers the others, which ask now and then, as workers of a parameter server."""
    for _ in range(5):
        if zoo_ranks.RANK > 0:
            time.sleep(work_seconds() / 8)
        RANKS.meet()


@program("strangers")
def event_loops():
    async def ticks():
        for _ in turns():
            await asyncio.sleep(0.3)

    asyncio.run(ticks())


@program("strangers")
def watched_folder():
    """Waits for a file that another program writes, and reports each time that it is not there yet."""
    with tempfile.TemporaryDirectory() as folder:
        for _ in turns():
            print("waiting", os.path.exists(os.path.join(folder, "done")), file=sys.stderr, flush=True)
            time.sleep(1)


@program("libmuster", 1)
def polls_with_dots():
    """Progress without ends of lines."""
    for _ in turns():
        print(".", end="", flush=True)
        time.sleep(1)


@program("gloo", 0)
def progress_bar():
    """One line that is written again and again."""
    for turn in turns():
        print(f"\rstep {turn}", end="", file=sys.stderr, flush=True)
        time.sleep(1.5)


@program("sockets", 0)
def thread_reports():
    def report():
        for _ in turns():
            print("at work", flush=True)
            time.sleep(1)

    worker = threading.Thread(target=report)
    worker.start()
    worker.join()


@program("strangers")
def locks_of_a_pool():
    """Its threads hand a token round, and the main thread waits for the last one."""
    token = threading.Condition()
    state = {"turn": 0, "end": time.monotonic() + work_seconds()}

    def pass_on(own):
        with token:
            while time.monotonic() < state["end"]:
                token.wait_for(lambda: state["turn"] == own, 0.2)
                state["turn"] = 1 - own
                token.notify_all()
                token.wait(0.1)

    workers = [threading.Thread(target=pass_on, args=(own,)) for own in (0, 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


@program("strangers")
def new_program():
    """Becomes another program in the middle."""
    time.sleep(work_seconds() / 2)
    os.execvp("sleep", ["sleep", str(work_seconds() / 2)])


@program("libmuster", 0)
def native_library():
    """Works in C, from two functions."""
    libc = ctypes.CDLL(None)
    memory = ctypes.create_string_buffer(1 << 22)

    def fill():
        for _ in range(20):
            libc.memset(memory, 1, 1 << 22)

    def look():
        for _ in range(20):
            libc.memchr(memory, 2, 1 << 22)

    for _ in turns():
        fill()
        look()


STARTED = time.monotonic()
RANKS = zoo_ranks.Strangers()


def main():
    global RANKS, STARTED
    run, kind, rank = PROGRAMS[sys.argv[1]]
    RANKS = zoo_ranks.KINDS[kind]()
    RANKS.meet("ready")
    STARTED = time.monotonic()
    print("up", flush=True)
    if rank is None or zoo_ranks.RANK == rank:
        run()
    RANKS.meet("end")
    RANKS.leave()
    print("done", flush=True)


if __name__ == "__main__":
    main()
