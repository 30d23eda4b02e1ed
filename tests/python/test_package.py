"""pip install ./python: a wheel with the library inside, in a virtual environment over Debian's packages."""

import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest
from conftest import BIN_DIR, PATIENCE_SECONDS, REPOSITORY, clean_environment

LIBRARY = BIN_DIR.parent / "lib/libmuster.so"
PIP = ["-m", "pip", "--disable-pip-version-check", "--no-input"]
OFFLINE = ["--no-index", "--no-deps", "--no-build-isolation"]


def call(*words, **environment):
    done = subprocess.run(words, env=clean_environment(MUSTER_LIBRARY=str(LIBRARY), **environment), text=True, cwd="/",
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    call(sys.executable, *PIP, "wheel", "-q", *OFFLINE, "--wheel-dir", str(folder), str(REPOSITORY / "python"))
    made, = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def venv(wheel, tmp_path_factory):
    """The Python of an environment that has the wheel."""
    folder = tmp_path_factory.mktemp("venv")
    call(sys.executable, "-m", "venv", "--system-site-packages", str(folder))
    python = str(folder / "bin/python")
    call(python, *PIP, "install", "-q", *OFFLINE, str(wheel))
    return python


def test_the_wheel_is_for_any_python_3_of_this_platform(wheel):
    assert wheel.name.startswith("muster-0.1.0-py3-none-linux_"), wheel
    names = set(zipfile.ZipFile(wheel).namelist())
    tree = {file.relative_to(REPOSITORY / "python").as_posix() for file in (REPOSITORY / "python/muster").rglob("*.py")}
    tree.add("muster/py.typed")
    tree |= {f"muster/v1/{name}_pb2.{kind}" for name in ("agent", "cleanup", "job", "launcher") for kind in ("py", "pyi")}
    tree |= {"muster/v1/launcher_pb2_grpc.py", "psij-descriptors/muster_descriptor.py",
             "snakemake_executor_plugin_muster/__init__.py"}
    assert {name for name in names if not name.startswith("muster-0.1.0.dist-info/")} == tree | {
        "muster/libmuster.so", "muster-horovod.pth"}
    assert zipfile.ZipFile(wheel).read("muster/libmuster.so") == LIBRARY.read_bytes()


def test_without_a_launcher_it_is_a_world_of_one(venv):
    script = """
import muster, muster.numpy as hvd, numpy as np
hvd.init()
assert hvd.size() == 1 and hvd.allreduce(np.arange(3.0)).tolist() == [0, 1, 2]
assert hvd.allgather_object("me") == ["me"]
print(muster.__file__)
"""
    unset = subprocess.run([venv, "-c", script], env=clean_environment(), cwd="/", capture_output=True, text=True,
                           timeout=PATIENCE_SECONDS, check=False)
    assert unset.returncode == 0 and "/site-packages/muster/" in unset.stdout, unset
    torch = "import muster.torch as hvd, torch; hvd.init(); print(hvd.size(), hvd.allreduce(torch.ones(2)).tolist())"
    assert call(venv, "-c", torch) == "1 [1.0, 1.0]\n"


def test_horovod_is_musters_unless_one_is_installed(venv):
    script = "import horovod, muster.numpy as hvd; hvd.init(); print(horovod.__file__, hvd.size())"
    shown = call(venv, "-c", script)
    assert shown.endswith("/site-packages/muster/dropin/horovod/__init__.py 1\n"), shown
    site = pathlib.Path(shown).parents[3]
    installed = site / "horovod"
    installed.mkdir()
    try:
        (installed / "__init__.py").write_text("")
        assert call(venv, "-c", "import horovod; print(horovod.__file__)") == f"{installed}/__init__.py\n"
    finally:
        shutil.rmtree(installed)


def test_run_and_ranks_use_it(venv):
    script = """
import muster.run_function, operator
print(muster.run_function.run(operator.add, (1, 2), np=2))
"""
    assert call(venv, "-c", script, MUSTER_HVDRUN=str(BIN_DIR / "hvdrun")) == "[3, 3]\n"
    assert call(venv, "-c", script, PATH=f"{BIN_DIR}:/usr/bin:/bin") == "[3, 3]\n"
