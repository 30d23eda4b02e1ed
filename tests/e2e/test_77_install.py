"""An installed Muster: by `cmake --install`, moved to another folder, from a .deb's files and from a tarball. An ordinary
user of the test hosts runs jobs with it, compiles programs against libmuster, and finds nothing left afterwards."""

import hashlib
import json
import os
import shutil
import signal
import subprocess

import pytest
from conftest import BIN_DIR
from console import Watched

BUILD = BIN_DIR.parent
PLACE = BUILD / "install_test"  # below the repository, which all test hosts see
SUM = """
import horovod.torch as hvd, torch
hvd.init()
print("sum", hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), "of", hvd.size(), hvd.__file__, flush=True)
"""
PROGRAM = """
#include <cstdio>
#include <vector>
#include <muster/muster.hpp>
int main() {
  auto world = muster::World::join();
  if (!world.ok()) return std::fprintf(stderr, "%s\\n", world.status().message().c_str()), 1;
  std::vector<float> values(3, 1);
  const auto done = world.value().communicator().allreduce(std::span(values), muster::Op::sum);
  if (!done.ok()) return 2;
  std::printf("total %.0f\\n", values[2]);
}
"""
LISTS = """
cmake_minimum_required(VERSION 3.16)
project(user LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(muster 0.1 REQUIRED)
add_executable(train train.cc)
target_link_libraries(train PRIVATE muster::muster)
"""


def done(*command, **options):
    finished = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert finished.returncode == 0, f"{command}: {finished.stdout}{finished.stderr}"
    return finished.stdout


@pytest.fixture(scope="module")
def place():
    """A folder for this test. What an installation of the developer's own has listed stays."""
    lists = [BUILD / "install_manifest.txt", BUILD / "install_folders.txt"]
    kept = {file: file.read_bytes() for file in lists if file.exists()}
    for file in kept:
        file.unlink()
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    yield PLACE
    shutil.rmtree(PLACE)
    for file in lists:
        file.unlink(missing_ok=True)
    for file, content in kept.items():
        file.write_bytes(content)


@pytest.fixture(scope="module")
def prefix(place):
    """Installed in one folder, then moved to another."""
    done("cmake", "--install", BUILD, "--prefix", place / "first")
    (place / "first").rename(place / "moved")
    return place / "moved"


@pytest.fixture
def run(hvdrun, cluster, no_leftovers):
    """Runs hvdrun of a prefix on head, without a variable that names a part of the build tree."""

    def call(prefix, *arguments, **options):
        path = f"{prefix}/bin:/usr/local/bin:/usr/bin:/bin"
        return hvdrun([], argv=["hvdrun", *map(str, arguments)], env={"PATH": path}, **options)

    return call


def test_the_first_command_of_the_readme(run, prefix):
    finished = run(prefix, "-np", "4", "-H", "n1:2,n2:2", "hostname")
    assert finished.rc == 0 and sorted(finished.stdout.split("\n"))[1:] == [
        f"[{rank}]<stdout>:n{rank // 2 + 1}" for rank in range(4)], finished


def test_files_for_other_programs(prefix):
    """The API's description is that of the installed launcherd, and Grafana's and Prometheus' files are there."""
    share = prefix / "share/muster"
    assert (share / "openapi.json").read_text() == done(prefix / "bin/launcherd", "--openapi")
    assert "panels" in json.loads((share / "grafana/launcherd.json").read_text())
    assert "alert: MusterLauncherdDown" in (share / "grafana/alerts.yaml").read_text()


def test_the_drop_in_of_horovod(run, prefix):
    finished = run(prefix, "-np", "2", "-H", "n1,n2", "/usr/bin/python3", "-B", "-c", SUM, timeout=120)
    assert finished.rc == 0 and finished.stdout.count(f"sum 2.0 of 2 {prefix}/share/muster/python/") == 2, finished


def test_the_self_test(run, prefix):
    assert run(prefix, "-np", "2", "-H", "n1,n2", "--self-test", timeout=120).rc == 0


def compiled_by_pkg_config(prefix, folder):
    flags = done("pkg-config", "--cflags", "--libs", "muster", env=os.environ | {"PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig"})
    done("g++", "-std=c++20", "train.cc", "-o", "train", *flags.split(), cwd=folder)
    return folder / "train"


def compiled_by_cmake(prefix, folder):
    (folder / "CMakeLists.txt").write_text(LISTS)
    done("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    done("cmake", "--build", folder / "build")
    return folder / "build" / "train"


@pytest.mark.parametrize("compiled", [compiled_by_pkg_config, compiled_by_cmake])
def test_a_program_with_libmuster(run, prefix, place, compiled):
    folder = place / compiled.__name__
    folder.mkdir()
    (folder / "train.cc").write_text(PROGRAM)
    finished = run(prefix, "-np", "2", "-H", "n1,n2", compiled(prefix, folder))
    assert finished.rc == 0 and finished.stdout.count("total 2") == 2, finished


def packaged(place, generator, folder):
    """The package's file."""
    done("cpack", "--config", BUILD / "CPackConfig.cmake", "-G", generator, "-B", place / folder, cwd=place,
         env=os.environ | {"SOURCE_DATE_EPOCH": "1764374400"})
    files = [file for file in (place / folder).iterdir() if file.suffix in (".deb", ".gz")]
    assert len(files) == 1, files
    return files[0]


@pytest.mark.parametrize("generator", ["DEB", "TGZ"])
def test_packages_are_reproducible_and_run(run, place, generator):
    packages = [packaged(place, generator, f"{generator}{number}") for number in range(2)]
    assert len({hashlib.sha256(package.read_bytes()).hexdigest() for package in packages}) == 1
    files = place / f"{generator}_files"
    files.mkdir()
    if generator == "DEB":
        fields = done("dpkg-deb", "-f", packages[0])
        assert "Package: muster" in fields and "libssl3" in fields, fields
        (files / "var/lib/dpkg").mkdir(parents=True)  # a machine with no package
        (files / "var/lib/dpkg/status").touch()
        # Its scripts only call ldconfig, which would look at this machine.
        (place / "sbin").mkdir()
        (place / "sbin/ldconfig").symlink_to("/bin/true")
        dpkg = ["dpkg", f"--root={files}", "--force-depends", "--force-script-chrootless"]
        safe = os.environ | {"PATH": f"{place}/sbin:{os.environ['PATH']}:/usr/sbin:/sbin"}
        done(*dpkg, "--install", packages[0], env=safe)
        prefix = files / "usr"
    else:
        done("tar", "-xf", packages[0], "-C", files, "--strip-components=1")
        prefix = files
    finished = run(prefix, "-np", "2", "-H", "n1,n2", "hostname")
    assert finished.rc == 0 and finished.stdout.count("<stdout>:n") == 2, finished
    if generator == "DEB":
        done(*dpkg, "--purge", "muster", env=safe)
        assert [path for path in files.rglob("*") if not path.is_relative_to(files / "var/lib/dpkg") and path.is_file()] == []


WAITS = "echo $(id -un) on $(hostname); exec sleep 1000"


def test_two_users_of_one_installation(hvdrun, cluster, no_leftovers, prefix):
    """alice and bob run jobs at the same time, by hvdrun and by a launcherd each. Neither sees the other's."""
    path = {"PATH": f"{prefix}/bin:/usr/local/bin:/usr/bin:/bin"}
    users, jobs = ("alice", "bob"), {}

    def muster(user, *words, code=0):
        finished = hvdrun([], user, argv=["muster", *words], env=path)
        assert finished.rc == code, finished
        return finished.stdout

    daemons = [Watched(hvdrun, cluster, argv=["launcherd", "-H", "n1:2,n2:2", "--state", f"/home/{user}/launcherd-state"], env=path,
                       user=user) for user in users]
    for daemon in daemons:
        daemon.err.wait_for("serving unix:")
    foreground = [Watched(hvdrun, cluster, argv=["hvdrun", "-np", "2", "-H", "n1,n2", "sh", "-c", WAITS], env=path, user=user)
                  for user in users]
    for user, job in zip(users, foreground):
        job.out.wait_for(f"{user} on n[12]", count=2)
        jobs[user] = muster(user, "submit", "-np", "2", "sh", "-c", WAITS).strip()
    for user, other in (users, users[::-1]):
        assert jobs[user] in (listed := muster(user, "jobs", "--all")) and jobs[other] not in listed
        refused = hvdrun([], user, argv=["muster", "--launcher", f"unix:/tmp/muster-{cluster.uid(other)}/launcherd.sock", "jobs"], env=path)
        assert refused.rc != 0 and jobs[other] not in refused.stdout, refused
        for host in ("n1", "n2"):
            assert cluster.run(host, user, ["ls", f"/tmp/muster-{cluster.uid(other)}"]).returncode != 0
        muster(user, "kill", jobs[user])
    for job in (*foreground, *daemons):
        job.signal(signal.SIGTERM)
    assert [job.end().rc for job in foreground] == [143, 143] and [daemon.end().rc for daemon in daemons] == [0, 0]
    for user in users:
        cluster.run("head", user, ["rm", "-rf", f"/home/{user}/launcherd-state"], check=True)


def test_uninstalling_leaves_nothing(place):
    kept = place / "kept"
    (kept / "bin").mkdir(parents=True)
    (kept / "bin" / "other").write_text("of somebody else")
    for prefix, left in ((place / "new", []), (kept, [kept, kept / "bin", kept / "bin" / "other"])):
        done("cmake", "--install", BUILD, "--prefix", prefix)
        assert (prefix / "bin" / "hvdrun").exists()
        done("/usr/bin/python3", "-c", "import muster.numpy", env={"PYTHONPATH": f"{prefix}/share/muster/python"})  # compiles modules
        done("cmake", "--build", BUILD, "--target", "uninstall")
        assert sorted(([prefix] if prefix.exists() else []) + list(prefix.rglob("*"))) == left
