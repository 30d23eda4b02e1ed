"""What has to be on a host before programs start there: libraries.py FOLDER-OF-PROGRAMS LIBMUSTER.

The driver's libraries, NCCL and PMIx are loaded when they are asked for, and the agent needs nothing at all: one build serves
all hosts.
"""

import pathlib
import re
import subprocess
import sys

C = {"libc", "libm", "libpthread", "libdl", "librt", "ld-linux"}
CXX = C | {"libstdc++", "libgcc_s"}


def needed(path):
    """Names of the libraries that a program or library needs."""
    listed = subprocess.run(["readelf", "-dW", path], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.+?)(?:-x86-64|-aarch64)?\.so", listed))


def main(programs, libmuster):
    programs, wrong = pathlib.Path(programs), []
    for path, allowed in ((programs / "muster-agent", set()), (programs / "muster-unpack", set()), (programs / "muster-gpus", C), (programs / "muster-pmix", C),
                          *((programs / name, C) for name in ("hvdrun", "muster", "launcherd")),
                          (pathlib.Path(libmuster), CXX | {"libcrypto"})):
        wrong += [f"{path.name} needs {name}" for name in sorted(needed(path) - allowed)]
    print("\n".join(wrong) or "right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
