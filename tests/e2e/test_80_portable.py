"""The files for any Linux: what their programs need of a host, and how they run from a tarball and from a wheel.

Both are made here of the build's own objects, and used by ordinary users of the test hosts."""

import re
import shutil
import signal
import sys

import pytest
from conftest import BIN_DIR, REPOSITORY
from launcherd_user import Launcherd
from test_77_install import SUM, done, run  # noqa: F401

BUILD = BIN_DIR.parent
PORTABLE = BUILD / "portable"
PLACE = BUILD / "portable_test"  # below the repository, which all test hosts see
PACK = REPOSITORY / "packaging" / "portable" / "pack.py"
PIP = ["/usr/bin/python3", "-m", "pip", "--disable-pip-version-check"]
GLIBC = (2, 28)
OF_GLIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2",
            "ld-linux-aarch64.so.1"}
TRAIN = """
import muster.numpy as hvd, numpy
hvd.init()
print("numpy", hvd.allreduce(numpy.ones(2), op=hvd.Sum).tolist(), hvd.size(), flush=True)
hvd.shutdown()
import muster.torch as hvd, torch
hvd.init()
print("torch", hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), hvd.size(), hvd.__file__, flush=True)
"""

pytestmark = pytest.mark.skipif(not (BUILD / "CMakeCache.txt").exists(), reason="MUSTER_BIN_DIR is not that of a build tree")


@pytest.fixture(scope="module")
def place():
    done("cmake", "--build", BUILD, "--target", "portable")
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    yield PLACE
    shutil.rmtree(PLACE)


def packed(kind, folder):
    folder.mkdir()
    done(sys.executable, "-B", PACK, kind, BUILD, folder, 1)
    made, = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def tarball(place):
    return packed("tarball", place / "tarball")


@pytest.fixture(scope="module")
def wheel(place):
    return packed("wheel", place / "wheel")


@pytest.fixture(scope="module")
def unpacked(place, tarball):
    (place / "opt").mkdir()
    done("tar", "-xf", tarball, "-C", place / "opt", "--strip-components=1")
    return place / "opt"


@pytest.fixture(scope="module")
def venv(place, wheel):
    done("/usr/bin/python3", "-m", "venv", "--without-pip", "--system-site-packages", place / "venv")
    done(*PIP, "--python", place / "venv/bin/python3", "install", "-q", "--no-index", "--no-deps", wheel)
    return place / "venv"


def missing_on_old_hosts(file):
    """What a program or library needs that a host with glibc 2.28 alone does not have."""
    text = done("readelf", "--wide", "--dynamic", "--program-headers", "--dyn-syms", file)
    found = {name for name in re.findall(r"\(NEEDED\).*\[(.*)\]", text) if name not in OF_GLIBC}
    for name, version in re.findall(r" UND (\S+)@(\S+)", text):
        number = re.fullmatch(r"GLIBC_([0-9.]+)", version)
        if not number or tuple(map(int, number[1].split("."))) > GLIBC:
            found.add(f"{name}@{version}")
    return found


def test_they_need_nothing_that_an_old_host_lacks(place):
    programs = {name: PORTABLE / "bin" / name for name in ("hvdrun", "muster", "launcherd")} | {"agent": BIN_DIR / "muster-agent"}
    for file in programs.values():
        text = done("readelf", "--wide", "--dynamic", "--program-headers", file)
        assert "NEEDED" not in text and "INTERP" not in text, f"{file} is not static"
    dynamic = [PORTABLE / "bin/muster_perf", PORTABLE / "lib/libmuster.so.0", *map(BIN_DIR.joinpath, ("muster-gpus", "muster-pmix"))]
    for file in dynamic:
        text = done("readelf", "--dynamic", file)
        assert missing_on_old_hosts(file) == set(), file
        # Before glibc 2.34 these are apart from libc.so.6, from which the linker took their functions.
        assert {"libpthread.so.0", "libdl.so.2", "libc.so.6"} <= set(re.findall(r"\(NEEDED\).*\[(.*)\]", text)), text
    assert "libcrypto.so.3" in missing_on_old_hosts(BUILD / "lib/libmuster.so.0")  # this machine's


def test_libmuster_shows_its_own_symbols_only(place):
    names = [done("nm", "--dynamic", "--defined-only", file).splitlines() for file in
             (PORTABLE / "lib/libmuster.so.0", BUILD / "lib/libmuster.so.0")]
    names = [sorted(line.split()[-1] for line in lines) for lines in names]
    assert names[0] == names[1] and len(names[0]) > 40


def test_the_first_command_of_the_readme(run, unpacked):  # noqa: F811
    finished = run(unpacked, "-np", "4", "-H", "n1:2,n2:2", "hostname")
    assert finished.rc == 0 and sorted(finished.stdout.split("\n"))[1:] == [
        f"[{rank}]<stdout>:n{rank // 2 + 1}" for rank in range(4)], finished


def test_the_self_test(run, unpacked):  # noqa: F811
    assert run(unpacked, "-np", "2", "-H", "n1,n2", "--self-test", timeout=120).rc == 0


@pytest.fixture
def foreign_names(cluster):
    """Hosts that ask modules for names, which belong to their own glibc."""
    file = cluster.path("head", "/etc/nsswitch.conf")
    kept = file.read_text()
    file.write_text("passwd: sss nis files\ngroup: sss files\nhosts: mymachines files sss nis\n")
    yield
    file.write_text(kept)


def test_names_without_modules(run, cluster, unpacked, foreign_names):  # noqa: F811
    """Names come from files and DNS, and a user without an entry, as of LDAP, runs jobs."""
    finished = run(unpacked, "-np", "2", "-H", "n1,n2", "hostname")
    assert finished.rc == 0 and finished.stdout.count("<stdout>:n") == 2, finished
    finished = run(unpacked, "-np", "2", "-H", "n1,nosuch", "hostname")
    assert finished.rc == 125 and "host nosuch: cannot resolve the name" in finished.stderr, finished
    stranger = cluster.run("head", "root", ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "env", "HOME=/tmp", "USER=ldapuser",
                                            unpacked / "bin/hvdrun", "-np", "2", "id", "-u"], cwd="/")
    assert stranger.returncode == 0 and stranger.stdout.count("<stdout>:54321") == 2, stranger
    shutil.rmtree(cluster.path("head", "/tmp/.cache"), ignore_errors=True)


def test_the_wheel(run, place, venv, unpacked):  # noqa: F811
    """All that a user types: pip install muster-*.whl && hvdrun -np 2 python3 train.py."""
    assert (venv / "bin/hvdrun").read_bytes() == (unpacked / "bin/hvdrun").read_bytes()  # no Python before it
    (place / "train.py").write_text(TRAIN)
    finished = run(venv, "-np", "2", "-H", "n1,n2", "python3", "-B", place / "train.py", timeout=120)
    assert finished.rc == 0 and finished.stdout.count("numpy [2.0, 2.0] 2\n") == 2, finished
    assert finished.stdout.count(f"torch 2.0 2 {venv}/") == 2, finished
    finished = run(venv, "-np", "2", "-H", "n1,n2", "python3", "-B", "-c", SUM, timeout=120)
    assert finished.rc == 0 and finished.stdout.count(f"sum 2.0 of 2 {venv}/") == 2, finished
    # The package alone, without hvdrun.
    script = "import muster, horovod, importlib.metadata as m; print(muster.__file__, horovod.__file__, m.version('muster'))"
    assert done(venv / "bin/python3", "-B", "-c", script, cwd="/").count(f"{venv}/lib/python3") == 2


def test_the_wheel_in_a_folder(run, place, wheel):  # noqa: F811
    """For machines where nothing may be installed: pip --target, and the machine's Python."""
    folder = place / "target"
    done(*PIP, "install", "-q", "--no-index", "--no-deps", "--target", folder, wheel)
    finished = run(folder, "-np", "2", "-H", "n1,n2", "/usr/bin/python3", "-B", "-c", SUM, timeout=120)
    assert finished.rc == 0 and finished.stdout.count(f"sum 2.0 of 2 {folder}/") == 2, finished
    version = done("/usr/bin/python3", "-B", "-c", "import muster; print(muster.__version__)", env={"PYTHONPATH": str(folder)}, cwd="/")
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", version)


def test_pip_uninstall_leaves_no_file(venv):
    done(*PIP, "--python", venv / "bin/python3", "uninstall", "-q", "-y", "muster")
    left = [path for part in ("bin", "libexec", "share", "lib") for path in (venv / part).rglob("*") if path.is_file() and "muster" in str(path.relative_to(venv))]
    assert left == [] and not (venv / "bin/hvdrun").exists()


def test_an_upgrade_while_a_job_runs(hvdrun, cluster, no_leftovers, place, tarball, unpacked):
    """The files of an older build are replaced below its launcherd. A job goes on, and the new launcherd takes it over."""
    build = re.search(r"\((\w{16})\)", done(unpacked / "bin/hvdrun", "--version"))[1]
    older, prefix = build[::-1], place / "upgraded"
    shutil.copytree(unpacked, prefix, symlinks=True)
    for file in [*map((prefix / "bin").joinpath, ("hvdrun", "muster", "launcherd")), prefix / "libexec/muster/muster-agent"]:
        file.write_bytes(file.read_bytes().replace(build.encode(), older.encode()))  # what makes builds differ
    assert older in done(prefix / "bin/launcherd", "--version")
    launcherd = Launcherd(hvdrun, cluster, bin_dir=prefix / "bin")
    try:
        job = launcherd.submit("-np", "4", "sh", "-c", "echo up; exec sleep 1000")
        followed = launcherd.watch("logs", "-f", job)
        followed.out.wait_for("up", count=4)
        followed.signal(signal.SIGINT)
        followed.end()
        done("tar", "-xf", tarball, "-C", prefix, "--strip-components=1")
        assert build in done(prefix / "bin/launcherd", "--version")
        assert launcherd.job(job)["state"] == "JOB_STATE_RUNNING"  # the new muster, the old launcherd
        launcherd.watched.signal(signal.SIGTERM)
        launcherd.watched.end()
        launcherd.come_back()
        assert launcherd.job(job)["state"] == "JOB_STATE_RUNNING"
        later = launcherd.submit("-np", "2", "echo", "later")  # by agents of the new build
        assert launcherd.watch("wait", later).end(60).rc == 0, launcherd.asked("events", later)
        launcherd.asked("kill", job)
        assert launcherd.muster("wait", job).returncode != 0 and launcherd.asked("logs", job).count("up") == 4
    finally:
        launcherd.close()
