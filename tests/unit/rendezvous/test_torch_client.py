"""Real torch (1.13 of Debian, or whichever is there) as a client of our TCPStore: the store's own API, and process
groups whose ranks are all clients, as they are under Muster (TORCHELASTIC_USE_AGENT_STORE=True)."""
import datetime
import os
import pathlib
import subprocess
import sys
import textwrap
import threading

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch.distributed as dist  # noqa: E402

SERVER = pathlib.Path(os.environ["MUSTER_TEST_PROGRAMS"]) / "tcp_store_server"
PATIENCE = datetime.timedelta(seconds=60)
AT_ONCE = datetime.timedelta(milliseconds=200)


# Links between the clients and the store, as between hosts of a tree; 0: clients connect to the store.
LINKS = int(os.environ.get("MUSTER_TEST_STORE_LINKS", "0"))


class Server:
    def __init__(self):
        self._child = subprocess.Popen([SERVER, str(LINKS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self._child.stdout.readline().split()[1])

    def renew(self):
        self._child.stdin.write("renew\n")
        self._child.stdin.flush()
        assert self._child.stdout.readline() == "renewed\n"

    def end(self):
        self._child.stdin.close()
        assert self._child.wait(timeout=60) == 0
        self._child.stdout.close()


@pytest.fixture
def server():
    one = Server()
    yield one
    one.end()


@pytest.fixture
def connect(server):
    def client(timeout=PATIENCE):
        return dist.TCPStore("127.0.0.1", server.port, None, False, timeout)

    return client


def set_now(store, key, value):
    """A set has no reply: only a later request of the same client tells that it is done."""
    store.set(key, value)
    store.num_keys()


def test_set_and_get(connect):
    store, other = connect(), connect()
    set_now(store, "key", "value")
    assert other.get("key") == b"value"
    set_now(store, "key", "")
    assert other.get("key") == b""
    set_now(store, "large", "x" * (5 << 20))
    assert len(other.get("large")) == 5 << 20
    set_now(store, "k" * 5000, "a long key")  # sent in several pieces
    assert other.get("k" * 5000) == b"a long key"


def test_add(connect):
    store, other = connect(), connect()
    assert store.add("n", 5) == 5
    assert other.add("n", -7) == -2
    assert store.get("n") == b"-2"


def test_compare_set(connect):
    store = connect()
    assert store.compare_set("k", "", "one") == b"one"
    assert store.compare_set("k", "two", "three") == b"one"
    assert store.compare_set("k", "one", "two") == b"two"
    assert store.get("k") == b"two"
    assert store.compare_set("absent", "expected", "desired") == b"expected"


def test_delete_and_count(connect):
    store = connect()
    before = store.num_keys()
    store.set("a", "1")
    store.set("b", "2")
    assert store.num_keys() == before + 2
    assert store.delete_key("a")
    assert not store.delete_key("a")
    assert store.num_keys() == before + 1


def test_wait_for_another(connect):
    store, other = connect(), connect()
    setter = threading.Timer(0.1, lambda: (other.set("a", "1"), other.add("b", 1)))
    setter.start()
    store.wait(["a", "b"], PATIENCE)
    assert store.get("b") == b"1"
    setter.join()


def test_wait_gives_up(connect):
    store = connect()
    with pytest.raises(RuntimeError):
        store.wait(["never"], AT_ONCE)
    impatient = connect(timeout=datetime.timedelta(seconds=1))
    with pytest.raises(RuntimeError):
        impatient.get("never")
    assert connect().add("after", 1) == 1  # the server serves on


def test_add_to_a_word_costs_only_its_client(connect):
    store, other = connect(), connect()
    set_now(store, "word", "no number")
    with pytest.raises(RuntimeError):
        store.add("word", 1)
    assert other.get("word") == b"no number"


def needs(*methods):
    missing = [method for method in methods if not hasattr(dist.TCPStore, method)]
    return pytest.mark.skipif(bool(missing), reason=f"the TCPStore of torch {torch.__version__} has no {missing}")


@needs("append", "multi_set", "multi_get")
def test_extended_api(connect):
    store, other = connect(), connect()
    store.append("k", "a")
    store.append("k", "bc")
    store.multi_set(["x", "y"], ["1", ""])
    assert store.multi_get(["k", "y", "x"]) == [b"abc", b"", b"1"]
    assert store.delete_key("x")
    assert other.get("k") == b"abc"
    other.append("k", "d")
    assert other.get("k") == b"abcd"


@needs("check")
def test_check(connect):
    store = connect()
    set_now(store, "k", "v")
    assert store.check(["k"])
    assert not store.check(["k", "never"])


@needs("list_keys")
def test_list_keys(connect):
    store = connect()
    set_now(store, "a", "1")
    assert set(store.list_keys()) >= {"a"}


@needs("barrier")
def test_barrier(connect):
    store, other = connect(), connect()
    with pytest.raises(dist.DistStoreError):
        store.barrier("alone", 2, AT_ONCE)
    arriver = threading.Timer(0.1, lambda: other.barrier("both", 2, PATIENCE))
    arriver.start()
    store.barrier("both", 2, PATIENCE)
    arriver.join()


@needs("clone")
def test_clone(connect):
    store = connect()
    set_now(store, "k", "v")
    assert store.clone().get("k") == b"v"


@needs("queue_push", "queue_pop", "queue_len")
def test_queues(connect):
    store, other = connect(), connect()
    store.queue_push("q", "one")
    store.queue_push("q", "two")
    assert store.queue_len("q") == 2
    assert other.queue_pop("q") == b"one"
    assert other.queue_pop("q") == b"two"
    pusher = threading.Timer(0.1, lambda: store.queue_push("q", "three"))
    pusher.start()
    assert other.queue_pop("q") == b"three"
    pusher.join()


def test_prefix_store(connect):
    store = dist.PrefixStore("worker/attempt_0", connect())
    store.set("k", "v")
    assert dist.PrefixStore("worker/attempt_0", connect()).get("k") == b"v"


def test_connect_with_world_size_waits_for_nobody(server):
    stores = [dist.TCPStore("127.0.0.1", server.port, 4, False, PATIENCE) for _ in range(2)]
    stores[0].set("k", "v")
    assert stores[1].get("k") == b"v"


RANK = textwrap.dedent("""
    import datetime, os, torch, torch.distributed as dist
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    rank, size = dist.get_rank(), dist.get_world_size()
    value = torch.arange(1000, dtype=torch.float64) * (rank + 1)
    dist.all_reduce(value)
    assert torch.equal(value, torch.arange(1000, dtype=torch.float64) * (size * (size + 1) / 2))
    dist.barrier()
    if os.environ.get("FAIL_RANK") == str(rank):
        os._exit(3)
    everyone = [None] * size
    dist.all_gather_object(everyone, rank)
    assert everyone == list(range(size))
    print("done", rank, flush=True)
    os._exit(0)  # torch 2.1 may lock itself up when it takes a gloo group down
""")


def start_ranks(port, size, attempt, **extra):
    ranks = []
    for rank in range(size):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(port), TORCHELASTIC_USE_AGENT_STORE="True", GLOO_SOCKET_IFNAME="lo",
                           TORCHELASTIC_RESTART_COUNT=str(attempt), OMP_NUM_THREADS="1", **extra)
        ranks.append(subprocess.Popen([sys.executable, "-c", RANK], env=environment, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True))
    return ranks


def finish(ranks):
    """[(exit status, lines of stdout, stderr)] of all; none is left."""
    try:
        results = [(rank, *rank.communicate(timeout=180)) for rank in ranks]
        return [(rank.returncode, out.splitlines(), err) for rank, out, err in results]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def expect_done(ranks):
    for rank, (status, lines, err) in enumerate(finish(ranks)):
        assert (status, lines[-1:]) == (0, [f"done {rank}"]), err


@pytest.mark.parametrize("size", [2, 4])
def test_process_group(server, size):
    expect_done(start_ranks(server.port, size, attempt=0))


@pytest.mark.skipif(LINKS > 0, reason="an agent has one store for each start of a job")
def test_restart_on_a_fresh_store(server):
    failed = finish(start_ranks(server.port, 2, attempt=0, FAIL_RANK="1"))
    assert failed[1][0] == 3
    assert failed[0][0] not in (0, 3)
    server.renew()
    # The same attempt number: newer torch has none in its keys, so that only the store keeps attempts apart.
    expect_done(start_ranks(server.port, 2, attempt=0))
