"""How soon the GPU memory of a killed rank is free: released.py HVDRUN, for tests/gpu/run.

A rank under hvdrun takes memory of its GPU and kills itself. hvdrun ends when the agent has waited for the driver: then the
memory is free, or a line has said that it is not. What is free is what nvidia-smi shows. Prints a line of JSON.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time

MOST = 20 << 30
NEAR = 1 << 30  # by so much what is in use may change by itself
PATIENCE_SECONDS = 30
LINES_OF_AGENT = r"still holds|more in use than|did not confirm|unknown whether the GPUs"


def in_use():
    """Bytes, of all GPUs; None: not told, as of divided ones."""
    done = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], stdout=subprocess.PIPE,
                          text=True, timeout=20, check=True)
    numbers = done.stdout.split()
    return sum(int(number) << 20 for number in numbers) if all(map(str.isdigit, numbers)) else None


def take_and_die():
    import torch
    taken = min(MOST, torch.cuda.mem_get_info()[0] // 2)
    memory = torch.ones(taken, dtype=torch.uint8, device="cuda")
    assert memory[-1].item() == 1
    print(f"took {taken}, in use {in_use()}, ends at {time.time():.3f}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def watch(hvdrun, rank):
    before = in_use()
    if before is None:
        print("skipped: nvidia-smi does not tell how much memory is in use")
        return 77
    done = subprocess.run([hvdrun, "-np", "1", "-H", "localhost:1", "--gpu-bind", "one", *rank], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=70, check=False)
    end = time.time()
    print(done.stdout, end="")
    assert done.returncode == 137, f"hvdrun ended with {done.returncode}, not with 137"
    taken, seen, death = re.search(r"took (\d+), in use (\d+), ends at ([\d.]+)", done.stdout).groups()
    assert int(seen) - before >= int(taken) - NEAR, f"nvidia-smi showed {seen} bytes in use, and {before} before: not what the rank took"
    lines = [line for line in done.stdout.splitlines() if re.search(LINES_OF_AGENT, line)]
    while (now := in_use()) - before > NEAR:
        assert lines, f"hvdrun said nothing, and {now - before} bytes more than before are in use"
        assert time.time() - end < PATIENCE_SECONDS, f"{now - before} bytes more than before are in use, {PATIENCE_SECONDS} s later"
    print(json.dumps({"op": "released", "bytes": int(taken), "hvdrun_s": round(end - float(death), 2),
                      "free_s": round(time.time() - float(death), 2), "said": "; ".join(lines) or "nothing"}))
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        take_and_die()
    else:
        sys.exit(watch(sys.argv[1], [sys.executable, os.path.abspath(__file__), "rank"]))
