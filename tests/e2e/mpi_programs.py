"""Programs of tests/mpi, compiled by the tests with an MPI's own compiler, and what such programs could leave on hosts."""

import os
import shutil
import subprocess

import pytest
from conftest import BIN_DIR, REPOSITORY

PROGRAMS = BIN_DIR.parent / "tests/programs"


def compiled(name, compiler, package, label=None, flags=(), env=None):
    """Path of tests/mpi/NAME.c as `compiler` makes it (NAME.label), where all hosts see it; skips where that is not
    installed."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed (Debian: {package})")
    source = REPOSITORY / "tests/mpi" / f"{name}.c"
    program = PROGRAMS / f"{name}.{label or compiler}"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        PROGRAMS.mkdir(parents=True, exist_ok=True)
        new = program.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(new), str(source), *flags],
                       env={**os.environ, **(env or {})}, check=True)
        new.rename(program)
    return str(program)


def version_of(package):
    """As Debian counts it, without its own numbers: "4.0.2"; None where it is not installed."""
    told = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True, check=False)
    return told.stdout.split("-")[0].split("+")[0] if told.returncode == 0 else None


def files(cluster):
    """[(host, path)] of what lies in /tmp and /dev/shm of the nodes, other than this repository, if it is there."""
    found = []
    for host in cluster.nodes:
        listed = cluster.run(host, "root", ["find", "/tmp", "/dev/shm", "/var/tmp", "-mindepth", "1"], check=True).stdout
        found += [(host, path) for path in listed.splitlines() if not path.startswith(f"{REPOSITORY}/")]
    return found


def segments(cluster, user="alice"):
    """System V shared memory of the user on the nodes."""
    found = []
    for host in cluster.nodes:
        listed = cluster.run(host, "root", ["cat", "/proc/sysvipc/shm"], check=True).stdout
        uid = str(cluster.uid(user))
        found += [(host, line) for line in listed.splitlines()[1:] if line.split()[7] == uid]
    return found
