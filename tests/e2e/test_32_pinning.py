"""--bind-to depth and list, --reserve-cores, --hyperthreads, tiles: the masks that ranks really have, on this machine's CPUs.
Layouts of real sites: tests/unit/agent/job/site_pinning_test.cc."""

import json
import os
import pathlib

import pytest
from launcherd_user import Launcherd

MASK = ["sh", "-c", "sed -n 's/^Cpus_allowed_list:\\t//p' /proc/self/status"]
TILE = ["sh", "-c", 'echo "${ZE_AFFINITY_MASK-unset} ${ZE_ENABLE_PCI_ID_DEVICE_ORDER-unset}"']
CPUS = sorted(os.sched_getaffinity(0))


def siblings(cpu):
    """The threads of the CPU's core that may be used, by number."""
    text = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    threads = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        threads |= set(range(int(first), int(last or first) + 1))
    return sorted(threads & set(CPUS))


CORES = sorted({tuple(siblings(cpu)) for cpu in CPUS})


def seen(result):
    """What each rank has printed, in rank order."""
    assert result.rc == 0, result
    lines = sorted(line.split("]", 1) for line in result.stdout.splitlines())
    return [line[1].removeprefix("<stdout>:") for line in lines]


def spelled(cpus):
    """As the kernel writes them."""
    parts = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][1] + 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


@pytest.mark.skipif(len(CPUS) < 2, reason="one CPU")
def test_lists(hvdrun, no_leftovers):
    first, second = CPUS[0], CPUS[-1]
    job = ["-np", "4", "-H", "n1:2,n2:2", "--bind-to", f"list:{second}:{first},{second}"]
    assert seen(hvdrun([*job, *MASK])) == [str(second), spelled([first, second])] * 2


def test_what_does_not_fit_starts_nothing(hvdrun, no_leftovers):
    job = ["-np", "3", "-H", "n1:1,n2:2", *MASK]
    result = hvdrun(["--bind-to", f"list:{CPUS[0]}", *job])
    assert result.rc == 2 and result.stdout == "", result
    assert "n2: --bind-to list has 1 list, but the host has 2 ranks: add a list for each rank" in result.stderr, result
    absent = CPUS[-1] + 1000
    result = hvdrun(["--bind-to", f"list:{absent}:{absent}", *job])
    assert f"n1: --bind-to list gives local rank 0 CPU {absent}, but ranks may use only {spelled(CPUS)}" in result.stderr, result
    result = hvdrun(["--depth", str(len(CPUS)), *job])
    assert result.rc == 2 and f"n2: --bind-to depth: 2 ranks of {len(CPUS)} hardware thread" in result.stderr, result


def test_depth_is_what_the_dry_run_says(hvdrun, no_leftovers):
    for options in (["--depth", "1"], ["--depth", str(len(CPUS)), "-np", "1"], ["--hyperthreads", "1"]):
        job = ["-np", str(len(CORES)), "-H", "n1:64", *options]
        told = hvdrun(["--dry-run", "--probe", "--json", *job])
        assert told.rc == 0, told
        ranks = json.loads(told.stdout)["hosts"][0]["ranks"]
        assert seen(hvdrun([*job, *MASK])) == [spelled(rank["cpus"]) for rank in ranks], told
    assert seen(hvdrun(["-np", "1", "-H", "n1", "--depth", "1", *MASK])) == [str(CORES[0][0])]


def test_reserved_cores(hvdrun, no_leftovers):
    reserve = ["-H", "n1", "--reserve-cores", str(CORES[0][0])]
    left = [cpu for core in CORES[1:] for cpu in core]
    for rule in ("share", "none", "depth"):
        result = hvdrun([*reserve, "--bind-to", rule, *MASK])
        if not left:
            assert result.rc == 2 and "leaves no core to the ranks" in result.stderr, result
        else:
            assert seen(result) == [spelled(left[:1] if rule == "depth" else left)], rule


def test_tiles(hvdrun, no_leftovers):
    """Described by the user: no GPU is there."""
    job = ["-np", "3", "-H", "n1:3", "--gpu-bind", "tile"]
    result = hvdrun([*job, *TILE])
    assert seen(result) == ["unset unset"] * 3, result
    assert "n1: --gpu-bind tile: the kernel shows no Intel GPU, so no rank gets one" in result.stderr, result
    job += ["--gpu-tiles", "2x2"]
    assert seen(hvdrun([*job, *TILE])) == ["0 1", "1 1", "2 1"]
    assert seen(hvdrun([*job, *TILE], env={"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"})) == ["0.0 1", "0.1 1", "1.0 1"]
    assert seen(hvdrun([*job, "-x", "ZE_AFFINITY_MASK=3,2,1", "--gpu-order", "reverse", *TILE])) == ["3 unset", "2 unset", "1 unset"]
    bus = ["-x", "ZE_ENABLE_PCI_ID_DEVICE_ORDER=1"]  # whose the numbers are
    assert seen(hvdrun([*job, "-x", "ZE_AFFINITY_MASK=3,2,1", *bus, *TILE])) == ["1 1", "2 1", "3 1"]


def test_through_launcherd(hvdrun, cluster, no_leftovers):
    launcherd = Launcherd(hvdrun, cluster)
    try:
        job = launcherd.submit("-np", "1", "-H", "n3", "--bind-to", f"list:{CPUS[-1]}", "--gpu-bind", "tile", "--gpu-tiles",
                               "1x2", "sh", "-c", " ".join([MASK[2], ";", TILE[2]]))
        launcherd.asked("wait", job)
        assert launcherd.asked("logs", job).splitlines() == [f"[0]<stdout>:{CPUS[-1]}", "[0]<stdout>:0 1"]
        absent = CPUS[-1] + 1000
        refused = launcherd.muster("submit", "-np", "1", "-H", "n3", "--bind-to", f"list:{absent}", *MASK)
        assert refused.returncode == 2 and f"n3: --bind-to list gives local rank 0 CPU {absent}" in refused.stderr, refused
        job = launcherd.submit("-np", "1", "-H", "n4", "--bind-to", f"list:{absent}", *MASK)  # which is not known yet
        launcherd.asked("wait", job, code=2)
        told = launcherd.job(job)
        assert f"n4: --bind-to list gives local rank 0 CPU {absent}" in told["reason"], told
    finally:
        launcherd.close()
