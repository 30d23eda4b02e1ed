"""tests/gpu/run and what it writes, without a GPU: every number here is made up, and a result of nothing."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import types

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import machine  # noqa: E402
import recorded  # noqa: E402
import released  # noqa: E402
import results  # noqa: E402

MACHINE = {"date": "2001-02-03", "commit": "0000000", "gpu": "NVIDIA M1 Made-up", "gpus": 1, "driver": "1.2.3", "memory": "7 MiB",
           "cores": 3, "cpu": "an abacus", "torch": "0.0"}


def packed(op, microseconds, bandwidth):
    return {"op": op, "model": "toy", "tensors": 3, "bytes": 2048, "us": microseconds, "gbs": bandwidth}


def reduced(path, ranks, size, microseconds):
    return {"op": "allreduce_on_stream", "path": path, "ranks": ranks, "bytes": size, "registered": True, "p50_us": microseconds,
            "algbw_gbs": size / microseconds / 1e3, "moved_gbs": 2 * ranks * size / microseconds / 1e3}


MEASURED = [
    packed("copy", 10, 100), packed("pack", 10.5, 95), packed("pack_scaled", 20, 50), packed("torch_cat", 21, 48),
    packed("unpack_scaled", 10.5, 95), packed("unpack_of_bfloat16", 40, 19), packed("torch_foreach_copy", 42, 24),
    packed("torch_foreach_copy_back", 10, 100), {"op": "launch_of_161", "us": 11.0}, {"op": "fused_of_161", "us": 50.0},
    {"op": "host_to_device", "bytes": 1, "gbs": 10.0}, {"op": "both_ways", "bytes": 2, "gbs": 16.0},
    reduced("ipc", 2, 1 << 30, 4 * (1 << 30) / 90e3), reduced("ipc", 2, 1 << 30, 4 * (1 << 30) / 30e3) | {"registered": False},
    reduced("ipc", 4, 4096, 8 * 4096 / 50e3),
    reduced("staged", 2, 1 << 20, 4 * (1 << 20) / 8e3),
    {"op": "allreduce_on_stream", "path": "staged", "ranks": 3, "bytes": 1 << 20, "registered": True, "p50_us": 6 * (1 << 20) / 8e3, "algbw_gbs": 1.0},
    reduced("ipc", 2, 1 << 26, 4 * (1 << 26) / 50e3) | {"copy_gbs": 60.0, "of_copy": 0.83},
    {"op": "driver_doubt", "question": "store", "what": "a made-up store", "answer": "7.0 us"},
    {"op": "training_step", "ranks": 2, "compute_us": 10, "allreduce_us": 4, "apart_us": 14, "step_us": 11, "hidden": 0.75, "saved": 0.21},
    {"op": "released", "bytes": 20 << 30, "hvdrun_s": 1.5, "free_s": 1.7, "said": "nothing"},
    {"op": "invented_since", "answer": 42}, {"op": "pack", "model": "toy"},
]


def write(out, steps=({"name": "build", "seconds": 9, "result": "right"},), measured=MEASURED, rest=""):
    (out / "machine.json").write_text(json.dumps(MACHINE))
    (out / "steps.jsonl").write_text("".join(json.dumps(one) + "\n" for one in steps))
    (out / "results.jsonl").write_text("".join(json.dumps(one) + "\n" for one in measured) + rest)
    results.main(out)
    return (out / "2001-02-03-m1-collectives.md").read_text()


def row(text, *cells):
    """The numbers of the row that begins with these cells."""
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in text.splitlines() if line.startswith("|")]
    (found,) = [one for one in rows if one[:len(cells)] == list(cells)]
    return found[len(cells):]


def test_ratios_are_to_what_the_run_has_measured(tmp_path):
    text = write(tmp_path)
    assert "2001-02-03, NVIDIA M1 Made-up" in text and "commit 0000000" in text and "driver 1.2.3" in text
    assert "MPS: no sign of it" in text
    assert row(text, "toy", "pack") == ["3", "2 KiB", "10.5", "95", "0.95 (≥ 0.92, met)", "2.00 (≥ 1, met)"]
    assert row(text, "toy", "pack_scaled")[-2:] == ["0.50 (≥ 0.92, NOT MET)", "1.05 (≥ 1, met)"]
    assert row(text, "toy", "unpack_scaled")[-1] == "0.95 (≥ 1, NOT MET)"  # beside torch's way back
    assert row(text, "toy", "unpack_of_bfloat16")[-1] == "0.25"
    assert row(text, "toy", "copy")[-2:] == ["-", "-"]
    assert "161 tensors: 11.00 (≤ 10, NOT MET) µs" in text
    assert "from its submission to its end on the GPU: 50.00 µs" in text
    assert row(text, "ipc", "Muster's", "2", "1 GiB")[-1] == "0.90 (≥ 0.8, met)"
    assert row(text, "ipc", "the program's", "2", "1 GiB")[-1] == "0.30"
    assert row(text, "ipc", "Muster's", "4", "4 KiB")[-1] == "0.50"
    assert row(text, "ipc", "Muster's", "2", "64 MiB")[-2:] == ["50.0", "0.83"]  # a copy of that size, by the same process
    assert row(text, "staged", "Muster's", "3", "1 MiB")[-2:] == ["-", "0.50"]
    assert row(text, "store", "a made-up store") == ["7.0 us"]
    assert row(text, "staged", "Muster's", "2", "1 MiB")[-1] == "0.50"  # half of what both ways at once allow
    assert "a copy on the device 100 GB/s" in text and "both ways 16.0 GB/s" in text
    assert "had 20 GiB: hvdrun ended after 1.5 s, having said nothing; nvidia-smi showed it free after 1.7 s" in text
    assert row(text, "2", "10", "4", "14", "11") == ["0.75", "0.21"]


def test_lines_of_unknown_form_are_kept_as_they_are(tmp_path):
    text = write(tmp_path, rest='{"op":"pack","mo')
    assert "    op=invented_since answer=42\n    op=pack model=toy\n" in text


def test_what_was_wrong_is_said_first(tmp_path):
    steps = [{"name": "build", "seconds": 9, "result": "right"}, {"name": "ipc_2", "seconds": 1, "result": "WRONG: exit 1, x"}]
    text = write(tmp_path, steps, measured=[])
    assert "**Wrong: ipc_2.**" in text and row(text, "ipc_2", "1") == ["WRONG: exit 1, x"]
    assert "## Packing" not in text


def test_nothing_measured_is_no_number(tmp_path):
    results.main(tmp_path)
    text = (tmp_path / "undated-nogpu-collectives.md").read_text()
    assert "no GPU" in text and "GB/s" not in text


@pytest.mark.parametrize(("name", "device"), [("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA A100-SXM4-80GB", "a100"),
                                              ("NVIDIA GeForce RTX 4090", "rtx4090"), ("Tesla T4", "t4"), ("", "nogpu")])
def test_device_names(name, device):
    assert results.device_name({"gpu": name}) == device


def test_mps_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    for pid, name in ((1, "init"), (20, "nvidia-cuda-mps")):  # as the kernel cuts it
        assert not machine.mps(tmp_path)
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(name + "\n")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/pipes")
    assert machine.mps(tmp_path) == "CUDA_MPS_PIPE_DIRECTORY=/pipes, nvidia-cuda-mps-control runs"


class Refused(Exception):
    def __init__(self, value):
        super().__init__(value)
        self.value = value


class MadeUpNvml:
    """pynvml as far as recorded.py asks it, of a divided GPU and of one that is another user's."""

    NVMLError = Refused

    def __getattr__(self, name):
        def answer(device=None, number=None):
            if (name, device) == ("nvmlDeviceGetHandleByIndex", 1):
                raise Refused(4)
            if name == "nvmlDeviceGetMigDeviceHandleByIndex":
                if number == 0:
                    raise Refused(6)
                return "part"
            answers = {"nvmlInit": None, "nvmlSystemGetDriverVersion": b"1.2.3", "nvmlDeviceGetCount": 2, "nvmlDeviceGetHandleByIndex": "gpu",
                       "nvmlDeviceGetPciInfo": types.SimpleNamespace(domain=0, bus=0x1b, device=0), "nvmlDeviceGetMigMode": [1, 1],
                       "nvmlDeviceGetMaxMigDeviceCount": 2, "nvmlDeviceGetUUID": {"gpu": "GPU-1", "part": "MIG-1"}.get(device),
                       "nvmlDeviceGetName": "M1 Made-up", "nvmlDeviceGetMemoryInfo": types.SimpleNamespace(total=9 << 20, used=5)}
            processes = {"part": [types.SimpleNamespace(pid=7, usedGpuMemory=4), types.SimpleNamespace(pid=8, usedGpuMemory=None)]}
            if name == "nvmlDeviceGetComputeRunningProcesses" and device in processes:
                return processes[device]
            if name not in answers:
                raise Refused(3)
            return answers[name]

        return answer


RECORDED = """driver 1.2.3
gpu 0000:1b:00.0 GPU-1 9437184 5 - M1 Made-up
divided
gap
part MIG-1 9437184 5 M1 Made-up
process 7 4
process 8 -
gpu 0000:00:00.0 closed-1 0 0 - closed
closed
fail nvmlDeviceGetComputeRunningProcesses_v3 3
"""


def test_what_nvidias_library_says_is_recorded_and_compared():
    seen = recorded.Recorder(MadeUpNvml())
    assert seen.script() == RECORDED
    part = {"uuid": "MIG-1", "model": "M1 Made-up", "memory_mib": "9"}
    gpu = {"vendor": "GPU_VENDOR_NVIDIA", "uuid": "GPU-1", "model": "M1 Made-up", "pci": "0000:1b:00.0", "memory_mib": "9", "parts": [part]}
    host = {"gpu_driver": "1.2.3", "gpu_problem": "", "gpus": [gpu]}
    recorded.compare(seen, host)
    for other in (host | {"gpus": [gpu | {"pci": "0000:1c:00.0"}]}, host | {"gpus": [gpu | {"parts": []}]}, host | {"gpu_driver": ""}):
        with pytest.raises(AssertionError):
            recorded.compare(seen, other)


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def script(tmp_path):
    """script(cmake, nvidia_smi, phase) -> the finished run of a copy of tests/gpu/run in a tree where nothing is built."""
    tree, programs = tmp_path / "tree", tmp_path / "bin"
    shutil.copytree(HERE, tree / "tests" / "gpu")
    shutil.copytree(HERE.parents[1] / "bench", tree / "bench", ignore=shutil.ignore_patterns("results"))
    programs.mkdir()
    program(programs / "python", 'exec /usr/bin/python3 -S "$@"')  # without torch, which is slow to load

    def run(cmake, nvidia_smi="exit 1", phase=()):
        program(programs / "cmake", cmake)
        program(programs / "nvidia-smi", nvidia_smi)
        return subprocess.run([tree / "tests/gpu/run", *phase, tmp_path / "out"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=100, check=False,
                              env=os.environ | {"PATH": f"{programs}:/usr/bin:/bin", "COMMIT": "1234567", "PYTHON": str(programs / "python")})

    yield run


FAILING = "i=0; while [ $i -lt 2000 ]; do echo line $i of a long log; i=$((i + 1)); done; echo 'error: no such thing'; exit 1"


def test_a_build_that_fails_is_shown_and_costs_only_what_needs_it(script, tmp_path):
    done = script(FAILING, "echo NVIDIA M1 Made-up, 1.2.3, 7 MiB")
    assert done.returncode == 1, done.stdout
    end = done.stdout[-12000:]
    assert "==== build: the end of its log\n" in end and "error: no such thing" in end and "line 1990 of" in end
    table = done.stdout.splitlines()[-35:]
    assert any(line.startswith("build ") and "WRONG: exit 1, error: no such thing" in line for line in table), table
    assert any(re.fullmatch(r"kernels +\d+ s  skipped: build/gpu/tests/gpu_kernels is not there", line) for line in table), table
    assert table[-1].startswith("pageable_staged"), table
    out = tmp_path / "out"
    assert len(list(out.iterdir())) <= 8 and "line 0 of a long log" in (out / "log").read_text()
    with tarfile.open(out / "logs.tar.gz") as logs:
        assert b"line 0 of a long log" in logs.extractfile("logs/build.log").read()
    (written,) = out.glob("*-m1-collectives.md")
    assert "**Wrong: build, build_staged" in written.read_text() and "commit 1234567" in written.read_text()


def test_without_a_gpu_the_rest_is_skipped(script, tmp_path):
    if pathlib.Path("/dev/nvidiactl").exists():
        pytest.skip("there is a GPU")
    done = script("mkdir -p build/gpu/lib && touch build/gpu/lib/libmuster.so")
    assert done.returncode == 0, done.stdout
    assert re.search(r"^kernels +\d+ s  skipped: no GPU$", done.stdout, re.M), done.stdout
    assert re.search(r"^tcpstore +\d+ s  skipped: no muster: tools/dist brings it along$", done.stdout, re.M), done.stdout
    (written,) = (tmp_path / "out").glob("*-nogpu-collectives.md")
    text = written.read_text()
    assert "Wrong" not in text and re.search(r"^Right: 2 of \d+ steps\. Skipped: facts, driver_doubts, ipc_2, ", text, re.M), text


def test_a_step_that_no_time_is_left_for_is_not_called_wrong(script, tmp_path):
    path = tmp_path / "tree" / "tests" / "gpu" / "run"
    text, machine = path.read_text(), '"$python" tests/gpu/machine.py "$root"'
    assert "seconds_in_all=470 " in text and machine in text
    path.write_text(text.replace("seconds_in_all=470 ", "seconds_in_all=10 ").replace(machine, """echo '{"date": "2001-02-03"}'"""))
    done = script("exec sleep 60")
    assert done.returncode == 0, done.stdout
    assert re.search(r"^build +\d+ s  skipped: cut off after \d+ of 240 s, no time is left$", done.stdout, re.M), done.stdout
    assert "tcpstore            0 s  skipped: no time is left" in done.stdout


MADE = "mkdir -p build/gpu/lib build/gpu/tests && touch build/gpu/lib/libmuster.so && cd build/gpu/tests && " \
    "for name in gpu_kernels gpu_ranks driver_doubts; do printf '#!/bin/sh\\n%s\\n' '{}' >$name && chmod +x $name; done"


def test_a_phase_has_its_own_steps(script):
    done = script(MADE.format("exit 0"), "echo NVIDIA M1 Made-up, 1.2.3, 7 MiB", ["time"])
    table = done.stdout.splitlines()[-20:]
    assert any(line.startswith("time_kernels ") for line in table) and any(line.startswith("time_ipc_4 ") for line in table), table
    assert not any(line.startswith(("kernels ", "memcheck ", "tcpstore ")) for line in table), table


def test_what_hangs_is_told_apart(script, tmp_path):
    tree = tmp_path / "tree/tests/gpu"
    (tree / "run").write_text((tree / "run").read_text().replace("pageable_seconds=30\n", "pageable_seconds=1\n"))
    (tree / "train.py").write_text("import os, sys\nsys.exit(os.environ.get('CUDA_MODULE_LOADING') != 'EAGER')\n")
    done = script(MADE.format('case "$*" in *pageable*) exec sleep 60 ;; esac'), "echo NVIDIA M1 Made-up, 1.2.3, 7 MiB", ["check"])
    results_of = dict(re.findall(r"^(\w+) +\d+ s  (.*)$", done.stdout, re.M))
    # The driver may never return from a read: that is an answer.
    assert results_of["pageable_ipc"] == "right", done.stdout
    assert '"pageable","what":"a result is read into memory that is not pinned, ipc","answer":"not back after 1 s"}' in done.stdout
    # Training that fails is tried with all kernels loaded before.
    assert results_of["train_2"].startswith("WRONG") and results_of["train_2_eager"] == "right", done.stdout
    assert results_of["train_4"].startswith("WRONG") and "train_4_eager" not in results_of


def test_kernels_that_are_skipped_where_there_is_a_gpu_are_wrong(script):
    done = script(MADE.format("echo skipped: for a reason; exit 77"), "echo NVIDIA M1 Made-up, 1.2.3, 7 MiB", ["time"])
    table = done.stdout.splitlines()[-20:]
    assert done.returncode == 1
    assert any(line.startswith("time_kernels ") and "WRONG: exit 1, there is a GPU, and nothing" in line for line in table), table


def test_what_is_measured_is_told_at_once(script, tmp_path):
    line = json.dumps({"op": "copy", "at": "once"})
    (tmp_path / "line").write_text(line + "\n")
    done = script(MADE.format(f"cat {tmp_path}/line"), "echo NVIDIA M1 Made-up, 1.2.3, 7 MiB", ["time"])
    assert done.stdout.index(line) < done.stdout.index("time_kernels: ")
    assert line in (tmp_path / "out/results.jsonl").read_text()


@pytest.fixture
def killed_rank(tmp_path, monkeypatch):
    """killed_rank(said, answers) -> released.watch() beside a hvdrun and an nvidia-smi that are none: what the one says at its
    end, and the MiB that the other shows, one after the other."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def watch(said, answers):
        (tmp_path / "answers").write_text("\n".join(map(str, answers)) + "\n")
        program(tmp_path / "nvidia-smi", f"head -1 {tmp_path}/answers && sed -i 1d {tmp_path}/answers")
        program(tmp_path / "hvdrun", f"""echo "[0]<stdout>:took $((20 << 30)), in use $((21000 << 20)), ends at 1.0"
            echo '{said}' && exit 137""")
        return released.watch(str(tmp_path / "hvdrun"), ["rank"])

    yield watch


def test_memory_that_is_free_at_once_needs_no_word(killed_rank, capsys):
    assert killed_rank("", [500, 510]) == 0
    assert '"said": "nothing"' in capsys.readouterr().out
    with pytest.raises(AssertionError, match="hvdrun said nothing"):
        killed_rank("", [500, 21000])


def test_memory_that_is_free_later_is_said(killed_rank, capsys):
    line = "n1: GPU 0 still holds 21.5 GB of rank 0 (pid 7), which has ended"
    assert killed_rank(line, [500, 21000, 21000, 600]) == 0
    assert f'"said": "{line}"' in capsys.readouterr().out
    assert killed_rank(line, ["[N/A]"]) == 77


def test_memory_that_was_not_seen_in_use_is_not_called_free(killed_rank):
    with pytest.raises(AssertionError, match="not what the rank took"):
        killed_rank("", [20000, 20000])
