"""What bench/engine and bench/training share: programs that hvdrun starts as ranks, in turns."""

import json
import os
import pathlib
import subprocess
import sys

import beside

PYTHON = "/usr/bin/python3"
TIME_LIMIT = 600.0


class Contestant:
    """A command that hvdrun starts as `ranks` ranks on this host; its rank 0 prints a JSON line."""

    def __init__(self, name, ranks, command, bin_dir, options=()):
        self.name = name
        self._argv = [str(bin_dir / "hvdrun"), *options, "-np", str(ranks), *map(str, command)]
        self._environ = {**os.environ, "PYTHONPATH": str(beside.ROOT / "python"),
                         "MUSTER_LIBRARY": str(bin_dir.parent / "lib/libmuster.so")}

    def run(self):
        """What rank 0 printed; a run with wrong elements is no measurement."""
        done = subprocess.run(self._argv, env=self._environ, capture_output=True, text=True, timeout=TIME_LIMIT,
                              stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise beside.BenchError(f"{self.name} failed with {done.returncode}: {done.stderr.strip()[-300:]}")
        begin = done.stdout.find('{"')
        if begin < 0:
            raise beside.BenchError(f"{self.name} printed no result")
        values = json.loads(done.stdout[begin:].splitlines()[0])
        if values.get("wrong"):
            raise beside.BenchError(f"{self.name}: {values['wrong']} wrong elements")
        return values


def horovod_python(bin_dir):
    """The Python that has the real Horovod, or None, which is told."""
    python = bin_dir.parent / "peers/horovod/bin/python"
    if python.exists():
        return python
    tool = pathlib.Path(sys.argv[0]).name
    print(f"{tool}: Horovod is left out: it is not installed (tools/peers horovod)", file=sys.stderr)
    return None


def measure(turns, repetitions):
    """{name: {value: summary}} of runs in turns."""
    runs = {turn.name: [] for turn in turns}
    for _ in range(repetitions):
        for turn in turns:
            runs[turn.name].append(turn.run())
    return {name: {key: beside.summary([one[key] for one in found]) for key in found[0] if key not in ("ranks", "wrong")}
            for name, found in runs.items()}


def spread(values, digits):
    return " ".join(f"{values[key]:.{digits}f}" for key in ("median", "min", "max"))
