"""What bench/allreduce and bench/allreduce_hosts share: the contestants' programs, their output, medians of turns."""

import json
import pathlib
import shutil
import statistics
import subprocess
import sys

import beside

HERE = pathlib.Path(__file__).resolve().parent
TIME_LIMIT = 600.0
MPI = {"openmpi": "mpicc.openmpi", "mpich": "mpicc.mpich"}


def tool():
    return pathlib.Path(sys.argv[0]).name


def size(text):
    units = {"K": 10, "M": 20, "G": 30}
    return int(text[:-1]) << units[text[-1].upper()] if text[-1:].upper() in units else int(text)


def size_name(value):
    for unit, shift in (("M", 20), ("K", 10)):
        if value >> shift and value % (1 << shift) == 0:
            return f"{value >> shift}{unit}"
    return str(value)


def lines_of(name, output):
    """The JSON lines of a program, by size; launchers may put a label before a line."""
    found = {}
    for line in output.splitlines():
        begin = line.find('{"')
        if begin >= 0:
            values = json.loads(line[begin:])
            found[values["bytes"]] = values
    if not found:
        raise beside.BenchError(f"{name} printed no result")
    wrong = [at for at, values in found.items() if values["wrong"]]
    if wrong:
        raise beside.BenchError(f"{name}: wrong elements at {', '.join(size_name(at) for at in wrong)} bytes")
    return found


def run_one(name, argv):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TIME_LIMIT, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise beside.BenchError(f"{name} failed with {done.returncode}: {done.stderr.strip()[-300:]}")
    return lines_of(name, done.stdout)


def built(name, compiler, into):
    """The MPI program made by that compiler, or None."""
    if not shutil.which(compiler):
        print(f"{tool()}: {name} is left out: {compiler} is not installed", file=sys.stderr)
        return None
    program = pathlib.Path(into) / f"mpi_allreduce.{name}"
    done = subprocess.run([compiler, "-O2", "-o", str(program), str(HERE / "mpi_allreduce.c")], capture_output=True,
                          text=True)
    if done.returncode != 0:
        problem = next((line for line in done.stderr.splitlines() if "error" in line), "without a message")
        print(f"{tool()}: {name} is left out: {compiler} failed (is lib{name}-dev installed?): {problem}",
              file=sys.stderr)
        return None
    return str(program)


def has_torch():
    asked = subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed"], capture_output=True)
    if asked.returncode != 0:
        print(f"{tool()}: gloo is left out: /usr/bin/python3 has no torch", file=sys.stderr)
    return asked.returncode == 0


def measure(turns, repetitions):
    """{name: {bytes: {"p50_us", "p99_us"}}}: medians of the runs, which take turns."""
    runs = {turn.name: [] for turn in turns}
    for _ in range(repetitions):
        for turn in turns:
            runs[turn.name].append(turn.run())
    return {name: {at: {key: statistics.median(one[at][key] for one in found) for key in ("p50_us", "p99_us")}
                   for at in found[0]} for name, found in runs.items()}
