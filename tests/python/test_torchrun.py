"""muster torchrun: what depends on the torch of the ranks."""

import json
import subprocess

import pytest
from conftest import BIN_DIR, PATIENCE_SECONDS, clean_environment

PYTHON = "/usr/bin/python3"
OLD_LINE = [PYTHON, "-m", "torch.distributed.launch", "--nproc_per_node=2"]


@pytest.fixture
def torchrun():
    """torchrun(words, **environment) -> subprocess.CompletedProcess with text."""
    def call(words, **environment):
        environment = clean_environment(PYTHON_EXEC=PYTHON, **environment)
        return subprocess.run([BIN_DIR / "muster", "torchrun", *map(str, words)], env=environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    return call


@pytest.fixture
def script(tmp_path):
    """A program that prints its arguments."""
    file = tmp_path / "train.py"
    file.write_text("import sys; print(*sys.argv[1:])\n")
    return file


def torch_of(version, folder):
    """A folder with a torch that is nothing but its version."""
    package = folder / f"site-{version}/torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('it takes seconds to import')\n")
    if version:
        (package / "version.py").write_text(f"from typing import Optional\n\n__all__ = ['__version__']\n"
                                            f"__version__ = '{version}'\ndebug = False\n")
    return str(package.parent)


@pytest.mark.parametrize("version, option", [("1.13.1", "--local_rank"), ("2.0.0+cpu", "--local-rank"),
                                             ("2.11.0a0+git1", "--local-rank"), ("10.1", "--local-rank")])
def test_the_ranks_torch_spells_local_rank(torchrun, script, tmp_path, version, option):
    expected = sorted(f"[{rank}]<stdout>:{option}={rank} --lr 0.1" for rank in range(2))
    for spelling in ("--nproc_per_node=2", "--nproc-per-node=2"):
        done = torchrun([*OLD_LINE[:3], spelling, script, "--lr", "0.1"], PYTHONPATH=torch_of(version, tmp_path / spelling))
        assert (done.returncode, sorted(done.stdout.splitlines())) == (0, expected), done


def test_modules_and_programs_get_it_as_well(torchrun, script, tmp_path):
    there = f"{torch_of('2.1.0', tmp_path)}:{tmp_path}"
    module = torchrun([*OLD_LINE, "-m", "train", "x"], PYTHONPATH=there)
    program = torchrun([*OLD_LINE, "--no_python", "echo", "x"], PYTHONPATH=there)
    for done in (module, program):
        expected = [f"[{rank}]<stdout>:--local-rank={rank} x" for rank in range(2)]
        assert (done.returncode, sorted(done.stdout.splitlines())) == (0, expected), done


def test_without_a_version_the_options_spelling_decides(torchrun, script, tmp_path):
    nameless = torch_of("", tmp_path)
    for spelling, option in (("--nproc_per_node=1", "--local_rank"), ("--nproc-per-node=1", "--local-rank")):
        done = torchrun([*OLD_LINE[:3], spelling, script], PYTHONPATH=nameless)
        assert (done.returncode, done.stdout) == (0, f"[0]<stdout>:{option}=0\n"), done


def test_a_torch_in_the_working_directory_is_not_the_ranks(torchrun, script, tmp_path):
    here = torch_of("10.0", tmp_path)
    done = torchrun(["--wdir", here, *OLD_LINE, script], PYTHONPATH=torch_of("1.9.0", tmp_path))
    assert sorted(done.stdout.splitlines()) == [f"[{rank}]<stdout>:--local_rank={rank}" for rank in range(2)], done


RAISES = """
import os, sys
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    print(os.environ["TORCHELASTIC_RUN_ID"], os.path.dirname(os.environ["TORCHELASTIC_ERROR_FILE"]) ==
          os.environ["MUSTER_SESSION_DIR"], flush=True)
    if os.environ["RANK"] == "1":
        raise KeyError("no such sample")
    sys.stdin.read()  # ended by the failure of the other

main()
"""


def test_what_a_rank_records_is_named(torchrun, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(RAISES)
    done = torchrun(["--nproc-per-node", "2", "--rdzv-id", "100", tmp_path / "train.py"])
    assert done.returncode == 1 and "hvdrun: localhost: rank 1 raised KeyError: 'no such sample'\n" in done.stderr, done
    assert "[1]<stdout>:100 True\n" in done.stdout, done


def test_a_virtual_local_rank_is_0(torchrun):
    done = torchrun(["--nproc-per-node", "2", "--virtual-local-rank", "--no-python", "sh", "-c",
                     "echo $LOCAL_RANK $MUSTER_LOCAL_RANK"])
    assert sorted(done.stdout.splitlines()) == ["[0]<stdout>:0 0", "[1]<stdout>:0 1"], done


def test_the_log_directory_gets_the_error_of_a_rank(torchrun, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(RAISES)
    stale = tmp_path / "logs" / "rank.0" / "error.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")
    done = torchrun(["--nproc-per-node", "2", "--log-dir", tmp_path / "logs", tmp_path / "train.py"])
    assert done.returncode == 1, done
    left = sorted(path.relative_to(tmp_path / "logs") for path in (tmp_path / "logs").rglob("*") if path.is_file())
    assert list(map(str, left)) == ["rank.1/error.json"], done
    error = json.loads((tmp_path / "logs" / "rank.1" / "error.json").read_text())
    assert error["message"]["message"] == "KeyError: 'no such sample'"
    assert 'raise KeyError("no such sample")' in error["message"]["extraInfo"]["py_callstack"]


def test_filtered_lines_go_to_a_file_as_well(torchrun, tmp_path):
    program = "echo step $RANK; echo loss $RANK; echo warning: step $RANK >&2"
    done = torchrun(["--nproc-per-node", "3", "--local-ranks-filter", "0,2", "--log-dir", tmp_path / "logs",
                     "--duplicate-stdout-filters", "loss,accuracy", "--duplicate-stderr-filters", "warning",
                     "--no-python", "sh", "-c", program])
    assert done.returncode == 0, done
    lines = sorted((tmp_path / "logs" / "filtered_stdout.log").read_text().splitlines())
    assert lines == ["[0]<stdout>:loss 0", "[2]<stdout>:loss 2"], done
    lines = sorted((tmp_path / "logs" / "filtered_stderr.log").read_text().splitlines())
    assert lines == ["[0]<stderr>:warning: step 0", "[2]<stderr>:warning: step 2"], done
    assert {"[0]<stdout>:step 0", "[0]<stdout>:loss 0"} <= set(done.stdout.splitlines()), done
