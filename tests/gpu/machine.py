"""What machine this is, as one line of JSON: machine.py, for tests/gpu/run. What cannot be found out is left out."""

import datetime
import glob
import json
import os
import platform
import re
import subprocess
import sys


def said(*command):
    """The output of a command; nothing where it is missing, fails or hangs."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def found(pattern, path):
    try:
        with open(path, encoding="utf-8", errors="replace") as text:
            match = re.search(pattern, text.read(), re.M)
    except OSError:
        return ""
    return match.group(1).strip() if match else ""


def gpus():
    rows = [row.split(", ") for row in said("nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                                            "--format=csv,noheader").splitlines() if row]
    if not rows:
        return {"gpus": 0}
    return {"gpus": len(rows), "gpu": rows[0][0], "driver": rows[0][1], "memory": rows[0][2]}


def mps(processes="/proc"):
    """Signs of NVIDIA's MPS, with which the kernels of several processes run at the same time; empty: none."""
    signs = [f"{name}={os.environ[name]}" for name in ("CUDA_MPS_PIPE_DIRECTORY",) if os.environ.get(name)]
    names = {found("(.*)", path) for path in glob.glob(f"{glob.escape(processes)}/[0-9]*/comm")}
    return ", ".join(signs + ["nvidia-cuda-mps-control runs"] * ("nvidia-cuda-mps" in names))  # 15 characters of its name


def software():
    """torch's own numbers, and those of the compilers."""
    facts = {"python": platform.python_version()}
    try:
        import torch
        facts["torch"] = torch.__version__
        facts["torch_gpus"] = torch.cuda.device_count()
        facts["torch_gpu"] = torch.cuda.get_device_name(0) if facts["torch_gpus"] else ""
        facts["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    except Exception as problem:  # whatever is wrong with this torch is told, and ends nothing
        facts["torch_problem"] = str(problem)[:200]
    facts["nvcc"] = (re.findall(r"V([\d.]+)", said("nvcc", "--version")) or [""])[-1]
    facts["compiler"] = (said("c++", "--version").splitlines() or [""])[0]
    return facts


def commit(root):
    """Of the tree: as COMMIT says, else git's, else as tools/dist has written it down."""
    return os.environ.get("COMMIT") or said("git", "-C", root, "describe", "--always", "--dirty", "--exclude=*") or \
        found(r"(.*)", os.path.join(root, "build/dist/commit"))


if __name__ == "__main__":
    machine = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), "commit": commit(sys.argv[1]),
               "cpu": found(r"^model name\s*:(.*)", "/proc/cpuinfo"), "cores": len(os.sched_getaffinity(0)),
               "kernel": platform.release(), "system": found(r'^PRETTY_NAME="(.*)"', "/etc/os-release"), "mps": mps(),
               **gpus(), **software()}
    machine["gpu"] = machine.get("gpu") or machine.pop("torch_gpu", "")  # where nvidia-smi says nothing
    machine.pop("torch_gpu", None)
    print(json.dumps({name: value for name, value in machine.items() if value != ""}))
