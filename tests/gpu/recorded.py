"""What NVIDIA's library says of this machine, and whether Muster says the same: recorded.py FILE [LAUNCHERD MUSTER].

FILE gets a script that tests/unit/agent/gpus/scripted_nvml.cc repeats, as pynvml (nvidia-ml-py) has seen the library: with it
tests can have this machine. With the two programs a job of launcherd's runs here, and what `muster hosts` knows then of the
GPUs has to be that. Exit 77: there is no pynvml.
"""

import json
import os
import subprocess
import sys
import tempfile

# As the library calls what pynvml calls without a version.
VERSIONED = {"nvmlDeviceGetPciInfo": "nvmlDeviceGetPciInfo_v3",
             "nvmlDeviceGetComputeRunningProcesses": "nvmlDeviceGetComputeRunningProcesses_v3"}
MIB = 1 << 20


def text(value):
    return value.decode() if isinstance(value, bytes) else value


class Recorder:
    """Asks pynvml, and keeps as lines of a script what it has said."""

    def __init__(self, nvml):
        self._nvml, self._refused, self._lines = nvml, {}, []
        nvml.nvmlInit()
        self.driver = text(nvml.nvmlSystemGetDriverVersion())
        self.gpus = [gpu for gpu in map(self._gpu, range(nvml.nvmlDeviceGetCount())) if gpu]

    def script(self):
        refused = [f"fail {VERSIONED.get(name, name)} {code}" for name, code in self._refused.items()]
        return "\n".join([f"driver {self.driver}", *self._lines, *refused]) + "\n"

    def _ask(self, name, *arguments):
        """None: it is refused, which the script says, too."""
        try:
            return getattr(self._nvml, name)(*arguments)
        except self._nvml.NVMLError as problem:
            self._refused[name] = problem.value
            return None

    def _gpu(self, number):
        try:
            device = self._nvml.nvmlDeviceGetHandleByIndex(number)
        except self._nvml.NVMLError:  # of another user
            self._lines += [f"gpu 0000:00:00.0 closed-{number} 0 0 - closed", "closed"]
            return None
        place = self._ask("nvmlDeviceGetPciInfo", device)
        pci = f"{place.domain:04x}:{place.bus:02x}:{place.device:02x}.0" if place else "0000:00:00.0"
        try:
            busy = self._nvml.nvmlDeviceGetUtilizationRates(device).gpu
        except self._nvml.NVMLError:
            busy = "-"
        gpu = self._device(f"gpu {pci} %s {busy} %s", device) | {"pci": pci, "parts": []}
        mode = self._ask("nvmlDeviceGetMigMode", device)
        if mode and mode[0] == 1:
            self._lines.append("divided")
            parts = [self._part(device, i) for i in range(self._ask("nvmlDeviceGetMaxMigDeviceCount", device) or 0)]
            gpu["parts"] = [part for part in parts if part]
        return gpu

    def _part(self, device, number):
        try:
            part = self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, number)
        except self._nvml.NVMLError:
            self._lines.append("gap")
            return None
        return self._device("part %s %s", part)

    def _device(self, line, device):
        """Of a GPU or a part; its processes are in lines behind it."""
        uuid, model = (text(self._ask(f"nvmlDeviceGet{what}", device)) or "-" for what in ("UUID", "Name"))
        memory = self._ask("nvmlDeviceGetMemoryInfo", device)
        total, used = (memory.total, memory.used) if memory else (0, 0)
        self._lines.append(line % (f"{uuid} {total} {used}", model))
        for process in self._ask("nvmlDeviceGetComputeRunningProcesses", device) or []:
            self._lines.append(f"process {process.pid} {'-' if process.usedGpuMemory is None else process.usedGpuMemory}")
        return {"uuid": uuid, "model": model, "memory_mib": str(total // MIB)}


def told_by_muster(launcherd, muster):
    """This host as launcherd knows it after a job."""
    with tempfile.TemporaryDirectory() as place:
        address = f"unix:{place}/socket"
        with subprocess.Popen([launcherd, "-H", "localhost", "--state", f"{place}/state", "--listen", address],
                              stderr=subprocess.PIPE, text=True) as daemon:
            try:
                while "serving unix:" not in (line := daemon.stderr.readline()):
                    print(line, end="")
                    assert line, "launcherd has ended"

                def ask(*words):
                    return subprocess.run([muster, *words], stdout=subprocess.PIPE, text=True, timeout=40, check=True,
                                          env=os.environ | {"MUSTER_LAUNCHER": address}).stdout

                ask("wait", ask("submit", "-np", "1", "true").strip())
                return json.loads(ask("hosts", "--json"))
            finally:
                daemon.terminate()
                print(daemon.communicate(timeout=20)[1], end="")


def compare(recorder, host):
    def seen(gpu):
        return {key: gpu[key] for key in ("uuid", "model", "pci", "memory_mib") if key in gpu} | {
            "parts": [{key: part[key] for key in ("uuid", "model", "memory_mib")} for part in gpu["parts"]]}

    assert host["gpu_driver"] == recorder.driver and not host["gpu_problem"], host
    ours, theirs = list(map(seen, host["gpus"])), list(map(seen, recorder.gpus))
    assert ours == theirs, f"muster hosts has {ours}, NVIDIA's library {theirs}"
    print(f"right: {len(ours)} GPUs as NVIDIA's library has them: {ours}")


if __name__ == "__main__":
    try:
        import pynvml
    except ImportError:
        print("skipped: no pynvml (nvidia-ml-py) here")
        sys.exit(77)
    recorded = Recorder(pynvml)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(recorded.script())
    print(recorded.script())
    if len(sys.argv) > 2:
        compare(recorded, told_by_muster(*sys.argv[2:]))
