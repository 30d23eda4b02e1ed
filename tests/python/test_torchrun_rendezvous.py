"""The rendezvous back end `muster` of torchrun: the handler alone on torch's own store, and torchrun under hvdrun."""

import re
import subprocess
import sys
import threading
import types

import pytest
from conftest import BIN_DIR, PATIENCE_SECONDS, REPOSITORY, clean_environment

from muster import torchrun

distributed = pytest.importorskip("torch.distributed")
rendezvous = pytest.importorskip("torch.distributed.elastic.rendezvous")


@pytest.fixture
def nodes():
    """Two nodes of run r, on one store. Each has a client of its own, as processes have."""
    server = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    clients = [torchrun._open_store(f"127.0.0.1:{server.port}") for _ in range(2)]
    made = [torchrun.Rendezvous(client, rank, 2, "r", join_seconds=1.0) for rank, client in enumerate(clients)]
    yield made
    del server


def both(nodes):
    """What next_rendezvous() returns for each, called at the same time."""
    found = [None, None]

    def join(index):
        found[index] = nodes[index].next_rendezvous()

    threads = [threading.Thread(target=join, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found)
    return found


def test_nodes_keep_their_ranks_and_get_a_new_store_each_round(nodes):
    for number in (1, 2, 3):
        infos = both(nodes)
        stores = [info[0] if isinstance(info, tuple) else info.store for info in infos]
        ranks = [info[1:] if isinstance(info, tuple) else (info.rank, info.world_size) for info in infos]
        assert ranks == [(0, 2), (1, 2)]
        assert stores[0].add("seen", 1) == 1, number  # no key of an earlier round is there
        assert stores[1].add("seen", 1) == 2
        assert [node.num_nodes_waiting() for node in nodes] == [0, 0]


def test_a_node_that_joins_the_next_round_is_seen_by_the_others(nodes):
    both(nodes)
    waiting = threading.Thread(target=nodes[1].next_rendezvous)
    waiting.start()
    while nodes[0].num_nodes_waiting() == 0:
        pass
    assert nodes[0].num_nodes_waiting() == 1
    nodes[0].next_rendezvous()
    waiting.join()
    assert nodes[0].num_nodes_waiting() == 0


def test_a_closed_run_has_no_further_round(nodes):
    both(nodes)
    assert not nodes[0].is_closed()
    assert nodes[1].shutdown() and nodes[0].is_closed()
    with pytest.raises(rendezvous.RendezvousClosedError, match="run r"):
        nodes[0].next_rendezvous()


def test_a_node_that_never_comes_is_missed(nodes):
    with pytest.raises(rendezvous.RendezvousTimeoutError, match="1 of 2 nodes have joined round 1 of run r within 1.0 s"):
        nodes[0].next_rendezvous()


def parameters(**changed):
    given = {"backend": "muster", "endpoint": "", "run_id": "r", "min_nodes": 2, "max_nodes": 2} | changed
    return rendezvous.RendezvousParameters(**given)


@pytest.mark.parametrize("variables, changed, text", [
    ({}, {}, "needs hvdrun, which sets MUSTER_RANK"),
    ({"MUSTER_RANK": "0"}, {}, "MUSTER_SIZE"),
    ({"MUSTER_RANK": "0", "MUSTER_SIZE": "3"}, {}, "the 3 torchrun processes"),
    ({"MUSTER_RANK": "0", "MUSTER_SIZE": "2"}, {"endpoint": "host"}, "--rdzv-endpoint must be HOST:PORT, not 'host'"),
    ({"MUSTER_RANK": "0", "MUSTER_SIZE": "2"}, {}, "must be HOST:PORT, not ':'"),
])
def test_what_is_missing_is_named(monkeypatch, variables, changed, text):
    for name in ("MUSTER_RANK", "MUSTER_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=re.escape(text)):
        torchrun.create(parameters(**changed))


def test_a_torch_without_torchs_rendezvous_info_gets_a_tuple(monkeypatch):
    api = types.SimpleNamespace()
    monkeypatch.setattr(rendezvous, "api", api)
    monkeypatch.setitem(sys.modules, "torch.distributed.elastic.rendezvous.api", api)
    assert torchrun._info("store", 1, 2, None) == ("store", 1, 2)


def test_the_tree_and_the_wheel_name_the_same_entry_point():
    tree = (REPOSITORY / "python/muster/dropin/muster.dist-info/entry_points.txt").read_text()
    assert tree == "[torchrun.handlers]\nmuster = muster.torchrun:handler\n"
    wheel = (REPOSITORY / "python/pyproject.toml").read_text()
    assert '[project.entry-points."torchrun.handlers"]\nmuster = "muster.torchrun:handler"\n' in wheel
    version = re.search(r"^project\(muster VERSION (\S+)", (REPOSITORY / "CMakeLists.txt").read_text(), re.M)[1]
    assert f"\nVersion: {version}\n" in (REPOSITORY / "python/muster/dropin/muster.dist-info/METADATA").read_text()
    assert torchrun.handler() is torchrun.create


SHOW = "import os; print('worker', os.environ['RANK'], os.environ['WORLD_SIZE'], os.environ['TORCHELASTIC_RESTART_COUNT'])"


def test_torchrun_of_this_torch_uses_it(tmp_path):
    (tmp_path / "show.py").write_text(SHOW)
    # -r and -t with one stream each: torch 1.13 on Python 3.11 cannot read any other value.
    done = subprocess.run([BIN_DIR / "hvdrun", "-np", "2", sys.executable, "-m", "muster.torchrun", "--rdzv_backend=muster",
                           "--nproc_per_node=2", "--redirects=2", "--tee=1", f"--log_dir={tmp_path}/logs", tmp_path / "show.py"],
                          env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done
    assert sorted(re.findall(r"worker (\d) 4 0", done.stdout)) == list("0123"), done
    first = re.findall(r"^\[0\]<stdout>:\[default\d\]:worker (\d) ", done.stdout, re.M)
    assert sorted(first) == ["0", "1"], done  # hvdrun's rank 0 has the first workers
