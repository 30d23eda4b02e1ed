"""The `horovod` that hvdrun gives to ranks: which one they get, what it has, and horovod.run()."""

import subprocess

import pytest
from conftest import BIN_DIR, PATIENCE_SECONDS, REPOSITORY, clean_environment

PYTHON_DIR = BIN_DIR.parent / "python"
DROPIN = PYTHON_DIR / "muster/dropin"
OURS = [PYTHON_DIR, DROPIN]
SHOW = "import horovod; print(horovod.__version__, getattr(horovod, 'MARK', 'muster'))"
REAL = REPOSITORY / "build/release/peers/horovod/bin/python"


@pytest.fixture
def installed(tmp_path):
    """A folder in which another package horovod lies, with a submodule torch and the metadata of an installation."""
    site = tmp_path / "site"
    (site / "horovod/torch").mkdir(parents=True)
    (site / "horovod/__init__.py").write_text("__version__ = '0.9.9'\nMARK = 'installed'\n")
    (site / "horovod/torch/__init__.py").write_text("from horovod import MARK\n")
    (site / "horovod-0.9.9.dist-info").mkdir()
    (site / "horovod-0.9.9.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: horovod\nVersion: 0.9.9\n")
    return site


def test_without_another_it_is_musters(python):
    done = python(SHOW, path=OURS)
    assert (done.returncode, done.stdout) == (0, "0.28.1 muster\n"), done
    assert done.stderr == "muster: horovod is Muster's 0.1.0; use --horovod installed for an installed one\n"


@pytest.mark.parametrize("wish", ["auto", "installed", None])
def test_an_installed_one_is_not_shadowed(python, installed, wish):
    chosen = {} if wish is None else {"MUSTER_HOROVOD": wish}
    done = python(SHOW + "; import horovod.torch; print(horovod.torch.MARK, horovod.torch.__file__)",
                  path=[*OURS, installed], **chosen)
    assert done.stdout == f"0.9.9 installed\ninstalled {installed}/horovod/torch/__init__.py\n", done
    assert done.stderr == f"muster: horovod is 0.9.9 in {installed}/horovod; use --horovod muster for Muster's\n"


def test_musters_is_taken_where_it_is_asked_for(python, installed):
    done = python(SHOW, path=[*OURS, installed], MUSTER_HOROVOD="muster")
    assert done.stdout == "0.28.1 muster\n", done


def test_one_that_is_installed_in_place_counts(python, installed):
    finder = """
import importlib.util, sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "horovod":
            return importlib.util.spec_from_file_location(name, sys.argv[1] + "/horovod/__init__.py",
                                                          submodule_search_locations=[sys.argv[1] + "/horovod"])
sys.meta_path.append(Finder)
"""
    done = python(finder + SHOW, str(installed), path=OURS)
    assert done.stdout == "0.9.9 installed\n", done


def test_a_finder_of_the_older_kind_is_passed_over(python, installed):
    """One with find_module() alone, which Python 3.12 does not ask any more."""
    older = """
import sys
class Finder:
    @staticmethod
    def find_module(name, path=None):
        return None
sys.meta_path[:] = [Finder, *sys.meta_path, Finder]
"""
    assert python(older + SHOW, path=OURS).stdout == "0.28.1 muster\n"
    assert python(older + SHOW, path=[*OURS, installed]).stdout == "0.9.9 installed\n"


def test_another_copy_of_musters_is_not_taken_for_an_installed_one(python):
    done = python(SHOW, path=[*OURS, REPOSITORY / "python/muster/dropin"])
    assert done.stdout == "0.28.1 muster\n", done


def test_what_cannot_be_is_said(python):
    done = python(SHOW, path=OURS, MUSTER_HOROVOD="installed")
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == (
        "ImportError: MUSTER_HOROVOD=installed, but Horovod is not installed for this Python: install it (pip "
        "install horovod), or use Muster's (hvdrun --horovod muster)"), done
    done = python(SHOW, path=OURS, MUSTER_HOROVOD="mine")
    assert done.stderr.splitlines()[-1] == "ImportError: MUSTER_HOROVOD=mine is unknown: use auto, muster or installed"


def test_one_process_says_it(python):
    assert python(SHOW, path=OURS, MUSTER_RANK="1").stderr == ""
    assert python(SHOW, path=OURS, HOROVOD_RANK="1").stderr == ""
    spawns = ("import multiprocessing, horovod\n"
              "multiprocessing.get_context('spawn').Pool(1).apply(exec, ('import horovod',))\n")
    done = python(spawns, path=OURS, MUSTER_RANK="0")
    assert done.returncode == 0 and done.stderr.count("muster: horovod is") == 1, done


def test_hvdrun_gives_it_to_ranks(hvdrun, installed):
    show = ["/usr/bin/python3", "-c", SHOW]
    plain = hvdrun(["-np", "2", *show])
    assert sorted(plain.stdout.splitlines()) == [f"[{rank}]<stdout>:0.28.1 muster" for rank in range(2)], plain
    assert plain.stderr.count("muster: horovod is Muster's") == 1
    shadow = hvdrun(["-np", "1", *show], PYTHONPATH=str(installed))  # the user's own come first
    assert shadow.stdout == "[0]<stdout>:0.9.9 installed\n", shadow
    ours_first = f"{DROPIN}:{installed}"
    assert hvdrun(["-np", "1", *show], PYTHONPATH=ours_first).stdout == "[0]<stdout>:0.9.9 installed\n"
    assert hvdrun(["-np", "1", "--horovod", "muster", *show],
                  PYTHONPATH=ours_first).stdout == "[0]<stdout>:0.28.1 muster\n"
    ours = hvdrun(["-np", "1", "--horovod", "muster", *show], PYTHONPATH=str(installed))
    assert ours.stdout == "[0]<stdout>:0.28.1 muster\n", ours
    refused = hvdrun(["-np", "1", "--horovod", "installed", *show])
    assert refused.returncode == 1 and "Horovod is not installed for this Python" in refused.stderr, refused


def test_pythonpath_is_the_users_with_ours_behind(hvdrun):
    show = ["sh", "-c", "echo $PYTHONPATH"]
    assert hvdrun(["-np", "1", *show], PYTHONPATH="/a:/b").stdout == f"[0]<stdout>:/a:/b:{PYTHON_DIR}:{DROPIN}\n"
    assert hvdrun(["-np", "1", "--env-none", *show], PYTHONPATH="/a").stdout == f"[0]<stdout>:{PYTHON_DIR}:{DROPIN}\n"
    assert hvdrun(["-np", "1", "-x", "PYTHONPATH=/c", *show]).stdout == f"[0]<stdout>:/c:{PYTHON_DIR}:{DROPIN}\n"


def test_musters_is_taken_before_one_beside_the_script(hvdrun, installed):
    script = installed / "train.py"
    script.write_text(SHOW + "; import horovod.runner\n")
    again = "import subprocess, sys; subprocess.run([sys.executable, sys.argv[1]], check=True)"
    for command in ([script], ["-c", again, script]):  # by the rank, and by a program that the rank starts
        done = hvdrun(["-np", "1", "--horovod", "muster", "/usr/bin/python3", *map(str, command)])
        assert done.stdout == "[0]<stdout>:0.28.1 muster\n", done
        assert "muster: horovod is Muster's" in done.stderr, done


def test_the_users_sitecustomize_runs_all_the_same(hvdrun, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("MARK = 'mine'\n")
    show = ["/usr/bin/python3", "-c", "import sitecustomize; print(getattr(sitecustomize, 'MARK', 'none'))"]
    mine = hvdrun(["-np", "1", "--horovod", "muster", *show], PYTHONPATH=str(tmp_path))
    assert mine.stdout == "[0]<stdout>:mine\n", mine
    broken = hvdrun(["-np", "1", "--horovod", "muster", *show])
    assert (broken.returncode, broken.stdout) == (0, "[0]<stdout>:none\n"), broken


def test_modules_that_need_no_framework(python):
    names = """
import pickle
import horovod.common.elastic, horovod.common.process_sets, horovod.common.util as util, horovod.data, horovod.runner
from horovod.common.exceptions import HorovodInternalError, HorovodVersionMismatchError, HostsUpdatedInterrupt
assert horovod.run is horovod.runner.run
assert HostsUpdatedInterrupt(True).skip_sync and issubclass(HorovodInternalError, RuntimeError)
assert util.split_list(list(range(7)), 3) == [[0, 1, 2], [3, 4], [5, 6]]
assert [n for n in range(9) if util.num_rank_is_power_2(n)] == [1, 2, 4, 8]
assert util.extension_available("numpy") and not util.extension_available("caffe")
assert not util.gpu_available("tensorflow")
assert not util.mpi_built() and util.gloo_built(verbose=True) and not util.ddl_built() and not util.ccl_built()
assert pickle.loads(pickle.dumps(util.gloo_built)) is util.gloo_built
assert util.nccl_built() == 0 or util.nccl_built() >= 21400
assert util.is_iterable("ab") and not util.is_iterable(1)
util.check_extension("horovod.numpy", "HOROVOD_WITH_NUMPY", "a/b/__init__.py", "mpi_lib")
try:
    util.check_extension("horovod.caffe", "HOROVOD_WITH_CAFFE", "a/b/__init__.py", "mpi_lib")
    raise AssertionError
except ImportError as problem:
    assert "caffe" in str(problem)
horovod.common.elastic.ObjectState.sync = lambda state: setattr(state, "epoch", 3)  # init() is not called here
state = horovod.common.elastic.ObjectState()
assert horovod.common.elastic.run_fn(lambda state, more: (state.epoch, more), None)(state, 7) == (3, 7)
assert horovod.common.process_sets.global_process_set.process_set_id is None
"""
    done = python(names, path=OURS)
    assert done.returncode == 0, done


def test_what_upstreams_tests_import(python):
    names = """
import os, threading, warnings
from horovod.common.basics import HorovodBasics
from horovod.common.util import (EXTENSIONS, _cache, check_installed_version, env,
                                 get_average_backwards_compatibility_fun, get_ext_suffix, get_extension_full_path,
                                 is_version_greater_equal_than)
from horovod.runner.common.util.env import get_env_rank_and_size
from horovod.runner.launch import is_gloo_used, run_commandline
from horovod.runner.util.threads import in_thread, on_event

basics = HorovodBasics("mpi_ops.py", "mpi_lib")
assert (basics.Average, basics.Sum, basics.Adasum, basics.Min, basics.Max, basics.Product) == (0, 1, 2, 3, 4, 5)
assert basics.gloo_built() and not basics.mpi_built() and not basics.is_initialized()
basics.init()  # without a launcher
assert (basics.rank(), basics.size(), basics._get_process_set_ids_and_ranks()) == (0, 1, {0: [0]})
assert (basics._process_set_rank(0), basics._process_set_size(0)) == (0, 1)
basics.shutdown()

calls = []
kept = _cache(lambda number: calls.append(number) or len(calls))
assert [kept(7), kept(7), kept(8)] == [1, 1, 2]
os.environ["THERE"] = "before"
with env(THERE="now", NEW="1", LEFT=None):
    assert (os.environ["THERE"], os.environ["NEW"], "LEFT" in os.environ) == ("now", "1", False)
assert os.environ["THERE"] == "before" and "NEW" not in os.environ
reduction = get_average_backwards_compatibility_fun(basics)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    assert [reduction(None, None), reduction(4, None), reduction(None, True), reduction(None, False)] == [0, 4, 0, 1]
assert [each.category for each in told] == [DeprecationWarning] * 2
assert get_extension_full_path("/a/b.py", "c", "lib") == "/a/c/lib" + get_ext_suffix()
assert EXTENSIONS == ["tensorflow", "torch", "mxnet"] and check_installed_version("torch", "1.2.3") is None
assert is_version_greater_equal_than("2.10.1+cpu", "2.9.0") and not is_version_greater_equal_than("2.9.0rc1", "2.9.1")
assert is_gloo_used() and is_gloo_used(use_gloo=True, use_mpi=True) and not is_gloo_used(use_mpi=True)

for refused in (lambda: reduction(1, False), lambda: is_version_greater_equal_than("2", "1.2"),
                lambda: is_version_greater_equal_than(2, "1.2.3"), lambda: in_thread(print, "word"),
                lambda: on_event(None, print), lambda: on_event(threading.Event(), print, daemon=False)):
    try:
        refused()
        raise AssertionError
    except ValueError:
        pass

seen = []
in_thread(seen.append, (1,)).join()
in_thread(lambda: 1 / 0, silent=True).join()
event, stop = threading.Event(), threading.Event()
waiting = on_event(event, seen.append, (2,))
event.set()
waiting.join()
stop.set()
on_event(threading.Event(), seen.append, (3,), stop=stop, check_stop_interval_s=0.01).join()
assert seen == [1, 2]

for name in ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
    size = name.replace("RANK", "SIZE") if name != "OMPI_COMM_WORLD_RANK" else "OMPI_COMM_WORLD_SIZE"
    with env(**{name: "2", size: "3"}):
        assert get_env_rank_and_size() == (2, 3)
assert get_env_rank_and_size() == (0, 1)
with env(PMI_RANK="1"):
    try:
        get_env_rank_and_size()
        raise AssertionError
    except RuntimeError as problem:
        assert "PMI_SIZE" in str(problem)
"""
    done = python(names, path=OURS)
    assert done.returncode == 0, done


def test_process_sets_by_basics(hvdrun):
    pytest.importorskip("torch")
    script = """
import horovod.torch as hvd
hvd.init(process_sets=[[0], [1, 2]])
assert hvd.mpi_ops._basics._get_process_set_ids_and_ranks() == {0: [0, 1, 2], 1: [0], 2: [1, 2]}
assert hvd.mpi_ops._basics._process_set_size(2) == 2
print(hvd.mpi_ops._basics._process_set_rank(1 if hvd.rank() == 0 else 2))
"""
    done = hvdrun(["-np", "3", "--oversubscribe", "--horovod", "muster", "/usr/bin/python3", "-c", script])
    assert sorted(done.stdout.split()) == ["[0]<stdout>:0", "[1]<stdout>:0", "[2]<stdout>:1"], done


def test_horovodrun_is_a_program(tmp_path):
    """A link to hvdrun, which takes horovodrun's abbreviations and files."""
    (tmp_path / "hvd.yaml").write_text("logging:\n  hide_timestamp: true\n  level: INFO\n")
    words = ["-np", "2", "--cycle", "3.5", "--config-file", str(tmp_path / "hvd.yaml"), "sh", "-c",
             "echo $HOROVOD_CYCLE_TIME $HOROVOD_LOG_LEVEL"]
    done = subprocess.run([BIN_DIR / "horovodrun", *words], env=clean_environment(), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, [f"[{r}]<stdout>:3.5 INFO" for r in (0, 1)]), done
    assert "hvd.yaml:2:3: unknown key 'hide_timestamp' in logging" in done.stderr, done
    whole = subprocess.run([BIN_DIR / "hvdrun", *words], env=clean_environment(), stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert whole.returncode == 2 and "did you mean --cycle-time-ms?" in whole.stderr, whole


def test_horovodrun_is_a_module_of_it(python):
    done = python("import sys; sys.argv[1:] = ['-np', '2', 'echo', 'here']\n"
                  "from horovod.runner.launch import run_commandline; run_commandline()", path=OURS)
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["[0]<stdout>:here", "[1]<stdout>:here"]), done


@pytest.mark.parametrize("has_kernels, version, expected", [(True, "22809", 22809), (True, "21304", 0),
                                                             (False, "22809", 0)])
def test_nccl_built_is_the_version_that_would_be_used(python, has_kernels, version, expected):
    """With an NCCL that is none, and as if this build had kernels for GPUs, or had none."""
    fakes = BIN_DIR.parent / "tests/fake_cuda"
    if not (fakes / "libnccl.so.2").exists():
        pytest.skip(f"{fakes}/libnccl.so.2 is not built")
    script = f"from muster import world; world.cuda_built = lambda: {has_kernels}; print(world.nccl_built())"
    done = python(script, path=OURS, LD_LIBRARY_PATH=str(fakes), FAKE_NCCL_VERSION=version)
    assert done.stdout == f"{expected}\n", done


LOADERS = """
import threading
from horovod.data import AsyncDataLoaderMixin, BaseDataLoader

class Numbers(BaseDataLoader):
    def __len__(self):
        return 5
    def _iterate(self):
        for number in range(5):
            if number == getattr(self, "bad", None):
                raise KeyError(number)
            yield number
    def _process_batch(self, batch):
        return -batch

class Ahead(AsyncDataLoaderMixin, Numbers):
    pass

assert list(Numbers()) == [0, -1, -2, -3, -4]
for size in (0, 1, 64):
    loader = Ahead(async_loader_queue_size=size)
    assert [list(loader), list(loader)] == [[0, -1, -2, -3, -4]] * 2
    for number in loader:
        break  # and iterated again from the start
    assert list(loader) == [0, -1, -2, -3, -4]
    loader.close_async_loader()
loader.bad = 3
seen = []
try:
    seen.extend(number for number in loader)
except KeyError as problem:
    assert problem.args == (3,)
else:
    raise AssertionError("the loader's error is lost")
assert threading.active_count() == 1
"""

SEVERAL_LOOPS = """
import threading
from horovod.data import AsyncDataLoaderMixin, BaseDataLoader

class Numbers(BaseDataLoader):
    def __len__(self):
        return 5
    def _iterate(self):
        yield from range(5)

class Slow(BaseDataLoader):
    is_asked, goes_on = threading.Event(), threading.Event()
    def __len__(self):
        return 2
    def _iterate(self):
        yield 0
        self.is_asked.set()
        self.goes_on.wait()
        yield 1

class Ahead(AsyncDataLoaderMixin, Numbers):
    pass

class SlowAhead(AsyncDataLoaderMixin, Slow):
    pass

loader = Ahead(async_loader_queue_size=1)
one, other = iter(loader), iter(loader)
assert [next(one), next(other), next(one)] == [0, 0, 1]
assert list(loader) == [0, 1, 2, 3, 4]
one.close()  # its own thread, and no other's
assert list(other) == [1, 2, 3, 4]
assert threading.active_count() == 1

# Closing ends all iterations, also one that waits for a batch.
loader = SlowAhead(async_loader_queue_size=1)
seen = []
waiting = threading.Thread(target=lambda: seen.extend(batch for batch in loader))
waiting.start()
loader.is_asked.wait()
closing = threading.Thread(target=loader.close_async_loader)
closing.start()
waiting.join()  # although there is no batch yet
loader.goes_on.set()
closing.join()
assert seen in ([], [0]), seen
kept = iter(loader)
assert next(kept) == 0
loader.close_async_loader()
assert list(kept) == []
assert list(loader) == [0, 1]
assert threading.active_count() == 1
"""


@pytest.mark.parametrize("script", [LOADERS, SEVERAL_LOOPS], ids=["one", "several"])
def test_data_loaders(python, script):
    done = python(script, path=OURS)
    assert done.returncode == 0, done


FUNCTIONS = """
import os

def scaled(base, by=1):
    import muster.numpy as hvd
    hvd.init()
    print(f"rank {hvd.rank()} says hello", end="")
    return hvd.rank(), float(hvd.allreduce(base, op=hvd.Sum)) * by

def long_result():
    return os.environ["MUSTER_RANK"], bytes(range(256)) * 8192

def one_raises():
    import muster.numpy as hvd
    if os.environ["MUSTER_RANK"] == "1":
        raise KeyError("mine")
    hvd.init()

def one_leaves():
    if os.environ["MUSTER_RANK"] == "1":
        os._exit(3)
"""


@pytest.fixture
def run(python, tmp_path):
    """run(script) with `functions` (FUNCTIONS) and horovod imported, in a folder on the caller's path alone."""
    (tmp_path / "functions.py").write_text(FUNCTIONS)

    def call(script, **environment):
        prepare = f"import sys; sys.path.append({str(tmp_path)!r}); import functions, horovod\n"
        return python(prepare + script, path=OURS, **environment)
    return call


def test_run_returns_what_ranks_return(run):
    done = run("print(); print(horovod.run(functions.scaled, (2,), {'by': 3}, np=2))")
    assert done.returncode == 0, done
    assert done.stdout.splitlines()[-1] == "[(0, 12.0), (1, 12.0)]"
    assert "[1]<stdout>:rank 1 says hello\n" in done.stdout
    done = run("for rank, data in horovod.run(functions.long_result, num_proc=3): print(rank, len(data))\n"
               "assert data == bytes(range(256)) * 8192")
    assert (done.returncode, done.stdout) == (0, "0 2097152\n1 2097152\n2 2097152\n"), done


def test_run_says_which_rank_failed(run):
    raised = run("horovod.run(functions.one_raises, np=2)")
    assert raised.returncode == 1 and "RuntimeError: run(): rank 1 of 2 raised\n" in raised.stderr, raised
    assert raised.stderr.rstrip().endswith("KeyError: 'mine'")
    left = run("horovod.run(functions.one_leaves, np=2)")
    assert "RuntimeError: run(): hvdrun ended with exit code 3, " in left.stderr, left
    assert "hvdrun: rank 1 on localhost" in left.stderr


@pytest.mark.parametrize("option", ["use_mpi=True", "mpi_args='-x A'", "min_np=1", "max_num_proc=4", "slots=2",
                                    "host_discovery_script='x'", "reset_limit=1", "cooldown_range=(1, 2)"])
def test_run_refuses_what_means_nothing_here(run, option):
    done = run(f"horovod.run(functions.long_result, {option})")
    assert done.returncode == 1 and "\nValueError: run(" in done.stderr, done
    assert "omit this argument" in done.stderr.splitlines()[-1]


def test_run_needs_cloudpickle_for_functions_of_scripts(run):
    without = "sys.modules['cloudpickle'] = None\n"
    done = run(without + "def mine(): return 1\nhorovod.run(mine)")
    assert "ValueError: run() can send a function of a script or a notebook only with cloudpickle" in done.stderr, done


def test_run_finds_hvdrun(run):
    lost = run("horovod.run(functions.long_result)", MUSTER_HVDRUN="/nowhere/hvdrun")
    assert "FileNotFoundError: hvdrun was not found as /nowhere/hvdrun" in lost.stderr, lost


@pytest.mark.skipif(not REAL.exists(), reason="tools/peers horovod was not run")
def test_the_real_horovod_is_taken_and_left(hvdrun):
    script = "import horovod, horovod.torch as hvd; hvd.init(); print(horovod.__file__)"
    real = hvdrun(["-np", "2", str(REAL), "-c", script])
    assert real.returncode == 0 and real.stdout.count("/peers/horovod/") == 2, real
    assert "muster: horovod is 0.28.1 in " in real.stderr
    ours = hvdrun(["-np", "2", "--horovod", "muster", str(REAL), "-c", script])
    assert ours.returncode == 0 and ours.stdout.count("/muster/dropin/") == 2, ours


TRAINING = """
import horovod.torch as hvd, torch
hvd.init()
torch.manual_seed(hvd.rank())
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
unused = torch.nn.Parameter(torch.ones(2))
named = [*model.named_parameters(), ("unused", unused)]
optimizer = torch.optim.Adam([parameter for _, parameter in named], lr=0.01, weight_decay=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=named)
hvd.broadcast_parameters(dict(named), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
for step in range(3):
    optimizer.zero_grad()
    data = torch.full((5, 4), 0.1 * (step + hvd.rank()))
    model(data).square().mean().backward()
    optimizer.step()
sampler = hvd.elastic.ElasticSampler(range(13), seed=7)
sampler.set_epoch(2)
sampler.record_batch(0, 2)
sampler.load_state_dict(sampler.state_dict())
numbers = [number for _, parameter in named for number in parameter.detach().reshape(-1).tolist()]
print("RESULT", *numbers, *sorted(sampler.state_dict().items()), *sampler)
"""


def numbers_of(done):
    """What TRAINING prints, by rank: numbers that may be rounded, and words that are the same."""
    assert done.returncode == 0, done
    lines = [line.split(" ") for line in sorted(done.stdout.splitlines()) if "RESULT" in line]
    assert len(lines) == 2, done
    return [([float(word) for word in line[1:22]], line[22:]) for line in lines]


@pytest.mark.skipif(not REAL.exists(), reason="tools/peers horovod was not run")
def test_a_training_is_that_of_the_real_horovod(hvdrun):
    real, ours = (numbers_of(hvdrun(["-np", "2", "--horovod", which, str(REAL), "-c", TRAINING]))
                  for which in ("installed", "muster"))
    for (expected, words), (mine, own_words) in zip(real, ours):
        assert mine == pytest.approx(expected, abs=1e-6)
        assert own_words == words


def test_names_of_torch(python):
    pytest.importorskip("torch")
    names = """
import horovod.torch as hvd
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import TorchState
import muster.torch
assert hvd.DistributedOptimizer is hvd.optimizer.DistributedOptimizer is muster.torch.DistributedOptimizer
assert hvd.elastic.TorchState is TorchState and hvd.elastic.ElasticSampler is ElasticSampler
assert hvd.mpi_ops.__name__ == "horovod.torch.mpi_ops" and hvd.mpi_ops.handle_average_backwards_compatibility(1, None) == 1
assert callable(hvd.mpi_ops.is_homogeneous) and hvd.compression.Compression is hvd.Compression
assert hvd.sync_batch_norm.SyncBatchNorm is hvd.SyncBatchNorm and callable(hvd.functions.broadcast_object)
assert hvd.mpi_ops.HorovodInternalError is hvd.HorovodInternalError and hvd.mpi_ops.Compression is hvd.Compression
import torch
from horovod.common.util import gpu_available
for is_there in (True, False):
    torch.cuda.is_available = lambda: is_there
    assert gpu_available("torch") == is_there
"""
    done = python(names, path=OURS)
    assert done.returncode == 0, done
