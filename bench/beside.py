"""What bench/launch and bench/output share: test hosts, the other launchers, a stopwatch on head, and the table."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import cluster  # noqa: E402
import plot  # noqa: E402

# Runs on head as alice, one request a line, so that entering the host is in no measurement.
_STOPWATCH = r"""
import json, os, subprocess, sys, time
for line in sys.stdin:
    ask = json.loads(line)
    into = subprocess.PIPE if ask["pipe"] else subprocess.DEVNULL
    begin = time.monotonic()
    child = subprocess.Popen(ask["argv"], stdin=subprocess.DEVNULL, stdout=into, stderr=subprocess.PIPE)
    reader = None
    if ask["pipe"]:
        reader = subprocess.Popen(["sh", "-c", "cat >/dev/null"], stdin=child.stdout)
        child.stdout.close()
    notes = [(time.monotonic() - begin, note.decode(errors="replace").rstrip()) for note in child.stderr]
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if reader:
        reader.wait()
    took = time.monotonic() - begin
    print(json.dumps({"rc": child.returncode, "seconds": took, "notes": notes, "peak_kib": usage.ru_maxrss,
                      "cpu_seconds": usage.ru_utime + usage.ru_stime}), flush=True)
"""
TIME_LIMIT = 300.0


class BenchError(Exception):
    """One sentence for the user."""


class Stopwatch:
    """Measures commands on head as alice; a context manager."""

    def __init__(self, hosts):
        self._command = hosts.start("head", "alice", ["/usr/bin/python3", "-I", "-S", "-c", _STOPWATCH],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._command.kill()
        self._command.wait()
        self._command.stdin.close()
        self._command.stdout.close()

    def measure(self, name, argv, pipe=False):
        """{"seconds", "notes", "peak_kib", "cpu_seconds"}. CPU time of other hosts is not in it. A command that fails is no
        measurement."""
        self._command.stdin.write(json.dumps({"argv": argv, "pipe": pipe}) + "\n")
        self._command.stdin.flush()
        line = self._command.stdout.readline()
        if not line:
            raise BenchError(f"{name}: the stopwatch on head ended")
        result = json.loads(line)
        if result["rc"] != 0:
            last = " | ".join(note for _, note in result["notes"][-4:]) or "no message"
            raise BenchError(f"{name} failed with {result['rc']}: {last}")
        return result


def hosts_up(count, *folders, **shape):
    """Test hosts that see these folders; shape is that of Cluster.up()."""
    problem = cluster.unavailable()
    if problem:
        raise BenchError(problem)
    return cluster.Cluster.up(f"bench-{os.getpid()}-{count}", count, expose=[str(folder) for folder in folders],
                              **shape)


def subnet(hosts):
    """Of the NICs that reach somebody: Open MPI would also try the other."""
    return ".".join(hosts.address("head").split(".")[:3]) + ".0/24"


def hydra(where, ranks, command, *options):
    return ["mpiexec.hydra", "-launcher", "ssh", *options, "-hosts", where, "-n", str(ranks), *command]


def mpirun(hosts, where, ranks, command, *options):
    return ["mpirun", "--mca", "oob_tcp_if_include", subnet(hosts), "--mca", "btl_tcp_if_include", subnet(hosts),
            *options, "-np", str(ranks), "--host", where, *command]


def prterun(hosts, where, ranks, command):
    return ["prterun", "--prtemca", "prte_if_include", subnet(hosts), "-n", str(ranks), "--host", where, *command]


def installed(commands):
    """Those of {name: argv} whose program exists here."""
    return {name: argv for name, argv in commands.items() if argv and shutil.which(argv[0])}


def summary(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "values": values}


def spread(values, factor, digits):
    """A summary's "median [min max]" times a factor; "-" without one."""
    if values is None:
        return "-"
    low, mid, high = (f"{values[key] * factor:.{digits}f}" for key in ("min", "median", "max"))
    return f"{mid} [{low} {high}]"


def table(rows):
    """Columns as wide as they must be; the first is left-aligned."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    line = "| " + " | ".join("{:%s%d}" % ("<" if i == 0 else ">", w) for i, w in enumerate(widths)) + " |"
    rule = "|" + "|".join("-" * (w + 2) for w in widths) + "|"
    text = [line.format(*row) for row in rows]
    return "\n".join([text[0], rule, *text[1:]])


def machine():
    """One line: what was measured, where, when, under which load."""
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    dirty = subprocess.run(["git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no"],
                           capture_output=True, text=True)
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    state = "with changes" if dirty.stdout.strip() else "clean"
    return {"date": time.strftime("%Y-%m-%d %H:%M:%S"), "commit": commit.stdout.strip() or "unknown", "tree": state,
            "cpus": len(os.sched_getaffinity(0)), "cpu": model, "kernel": os.uname().release,
            "load": os.getloadavg()[0]}


def describe(facts):
    return (f"{facts['date']}, commit {facts['commit']} ({facts['tree']}), {facts['cpus']} × {facts['cpu']}, "
            f"Linux {facts['kernel']}, load {facts['load']:.1f}")


def add_data_options(parser, json_help):
    parser.add_argument("--json", action="store_true", help=json_help)
    parser.add_argument("--plot", default="", metavar="FILE",
                        help="also draw the results: FILE.html is a page, FILE.svg a picture (bench/plot.py)")


def as_data(options, *objects):
    """Writes what --plot and --json ask for, one object a line. Returns whether --json was given, so that no table
    follows."""
    lines = [json.dumps(one) for one in objects]
    if options.plot:
        plot.write([plot.read("\n".join(lines), "the result")], options.plot)
    if options.json:
        print("\n".join(lines))
    return options.json


class Parser(argparse.ArgumentParser):
    """Also checks the name of --plot before a measurement that may take an hour."""

    def parse_args(self, *words, **options):
        found = super().parse_args(*words, **options)
        if found.plot and not plot.is_name(found.plot):
            self.error(f"--plot {found.plot}: the name must end in .html or .svg")
        return found


def arguments(description, repetitions):
    parser = Parser(description=description)
    parser.add_argument("-n", "--repetitions", type=int, default=repetitions)
    add_data_options(parser, "one JSON object with every value instead of the table")
    parser.add_argument("--only", default="", help="names of launchers, by comma")
    parser.add_argument("--bin-dir", type=pathlib.Path, default=ROOT / "build/release/bin")
    return parser


def chosen(commands, only):
    names = [name for name in only.split(",") if name]
    return {name: argv for name, argv in installed(commands).items() if not names or name in names}


def checked_bin_dir(path, *programs):
    for program in programs:
        if not (path / program).exists():
            raise BenchError(f"{path / program} is missing: build it with tools/quickstart, or name its folder by --bin-dir")
    return path.resolve()


def main(run):
    """Calls run(); what it cannot do is one sentence."""
    try:
        run()
    except (BenchError, cluster.ClusterError, plot.PlotError) as problem:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {problem}")
