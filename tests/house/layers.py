#!/usr/bin/python3
"""house.layers: who may include whom.

The design's table of rooms, as data: every #include of every .h, .cc and .cu of a room is looked up in it. Prints
file:line of each violation and exits with 1 if there is one.

    layers.py ROOT
"""
import pathlib
import re
import sys

from report import report

# Room: the rooms that it may include (itself always).
ROOMS = {
    "base": [],
    "model": ["base"],
    "rendezvous": ["base"],
    "proto": ["base", "model"],
    "job_templates": ["base", "model"],
    "collectives": ["base", "rendezvous/session_frame", "rendezvous/session_stream"],
    "agent": ["base", "model", "proto", "rendezvous"],
    "launcherd": ["base", "model", "proto", "rendezvous", "job_templates"],
    "cli": ["base", "model", "proto", "job_templates", "launcherd"],
}

# The folders of a room from the bottom to the top: each may include those before it. Files that lie in the room itself
# are the top. A room that is not here has no folders.
FOLDERS = {
    "collectives": ["include", "kernel", "call", "transport", "algorithm", "join", "group", "device", "engine", "api"],
    "agent": ["unpack", "stage", "launch", "proc", "stacks", "evidence", "process", "strays", "pmix", "pmix/helper", "pmi", "gpus", "gpus/helper",
              "host", "io", "relay", "link", "commands", "job", "probe"],
    "launcherd": ["bootstrap", "ssh", "enrol", "site", "start", "hosts", "elastic", "relays", "service", "output", "trace", "web", "store", "queue",
                  "agents", "plan", "stage", "run", "cleanup", "doctor", "daemon"],
    "cli": ["help", "options", "foreign", "hosts", "view", "doctor", "verbs", "top", "run", "ensemble", "daemon"],
}

# Third-party headers by their first folder or their name: the places that may include them. A place is a room, a
# folder, or files given by their path without suffix. fmt and the standard library are for all.
THIRD_PARTY = {
    "boost/asio": ["base/loop", "rendezvous", "agent", "launcherd"],
    "boost/beast": ["rendezvous", "launcherd/web", "launcherd/trace"],
    "boost": ["base/loop", "rendezvous", "agent", "launcherd"],
    "openssl": ["base/tls", "base/tls_keys", "base/hmac", "base/sha256", "collectives/transport/record", "agent",
                "launcherd/service", "launcherd/bootstrap", "launcherd/ssh", "launcherd/trace"],
    "google/protobuf": ["proto", "launcherd/service"],
    "grpcpp": ["proto", "agent/link", "launcherd/service", "launcherd/trace"],
    "grpc": ["proto", "agent/link", "agent/grpc_parts", "launcherd/service"],
    "elfutils": ["agent/stacks"],
    "zstd.h": ["agent/unpack", "agent/stage/env_unpack", "launcherd/stage/env_packer"],
    "hwloc.h": ["agent"],
    "hwloc": ["agent"],
    "curses.h": ["cli/top/curses_screen"],
    "pmix.h": ["agent/pmix"],
    "pmix_server.h": ["agent/pmix"],
    "nvml.h": ["agent/launch", "collectives/device"],
    "libssh": ["launcherd/ssh"],
    "sqlite3.h": ["launcherd/store"],
    "yaml-cpp": ["base/yaml", "job_templates"],
    "nccl.h": ["collectives/device"],
    "cuda.h": ["collectives/device"],
    "cuda_runtime.h": ["collectives/device"],
    "muster": ["collectives/include"],  # the public headers, as users include them
    "absl": [],
}
FOR_ALL = ("fmt",)

# Headers that are slow to parse: the only headers of ours that may include them. All other headers declare in advance
# what they need, so that a file which includes them does not parse gRPC, Asio or Beast.
HEADER_ADAPTERS = {
    "boost": ["launcherd/web/http_head"],
    "google/protobuf": ["proto/frame", "proto/listed_descriptors"],  # the latter only before generated code
    "grpcpp": ["launcherd/service"],
    "grpc": ["launcherd/service"],
    ".grpc.pb.h": ["launcherd/service"],  # generated services
}

# Folders of the C library and the kernel: not third party.
SYSTEM_FOLDERS = ("sys", "net", "netinet", "arpa", "linux", "asm", "bits", "netpacket")

# Beside the rooms: these drive all of them and may include anything; no room may include them.
FREE = ("tests", "bench", "tools", "python")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SUFFIXES = (".h", ".cc", ".cu", ".cuh", ".c")


def is_inside(path, place):
    """Whether `path` (from the root, with '/') is the place itself, in it, or a file named so."""
    return path == place or path.startswith(place + "/") or path.rsplit(".", 1)[0] == place


def folder_of(path):
    """The folder of a file inside its room: "run" of launcherd/run/a.h, "" of agent/main.cc."""
    return "/".join(path.split("/")[1:-1])


def check_folders(room, path, header):
    order = FOLDERS.get(room)
    here, there = folder_of(path), folder_of(header)
    if order is None or here == there or room == "collectives" and there.startswith("include/"):
        return None
    for folder in (here, there):
        if folder and folder not in order and not folder.startswith("include/"):
            return f"{room}/{folder} has no place in FOLDERS of tests/house/layers.py"
    if not there:
        return f"{room}/{here} may not include what lies in {room}/ itself"
    if here and order.index(here) < order.index(there):
        return f"{room}/{here} is below {room}/{there}"
    return None


def check_own(room, path, header):
    target = header.split("/", 1)[0]
    if target in FREE:
        return f"a room may not include {target}/"
    if target == room:
        return check_folders(room, path, header)
    if target not in ROOMS:
        return None
    if any(is_inside(header, place) for place in ROOMS[room]):
        return None
    if {room, target} == {"agent", "launcherd"}:
        return f"{room} and {target} meet only in proto/"
    return f"{room} may not include {target}"


def check_third_party(path, header):
    folder = header.split("/", 1)[0]
    if folder in FOR_ALL:
        return None
    for key in sorted(THIRD_PARTY, key=len, reverse=True):
        if header == key or header.startswith(key + "/") or header.startswith(key + "."):
            if any(is_inside(path, place) for place in THIRD_PARTY[key]):
                return None
            places = ", ".join(THIRD_PARTY[key]) or "nobody"
            return f"{key} may be included only by {places}"
    if "/" in header and folder not in SYSTEM_FOLDERS:
        return f"{folder} is a library that no line of tests/house/layers.py allows"
    return None


def check_header(path, header):
    """Headers of the rooms keep slow third-party headers out of the files that include them."""
    if not path.endswith((".h", ".cuh")):
        return None
    for key, adapters in HEADER_ADAPTERS.items():
        is_slow = header.endswith(key) if key.startswith(".") else header.startswith(key + "/")
        if is_slow and not any(is_inside(path, adapter) for adapter in adapters):
            return f"{key} in a header: only {', '.join(adapters)} may; declare in advance and include it in the .cc file"
    return None


def check_line(root, path, line):
    """The violation in one line of `path`, or None."""
    match = INCLUDE.match(line)
    if match is None:
        return None
    quote, header = match.groups()
    room = path.split("/", 1)[0]
    top = header.split("/", 1)[0]
    if top in ROOMS or top in FREE:
        if room in FREE:
            return None
        return check_own(room, path, header) or check_header(path, header)
    if quote == '"':
        if room in FREE and (root / pathlib.Path(path).parent / header).exists():
            return "include by the full path from the root"
        return f'"{header}" is no path from the root: ours are, others go in <>'
    if room in FREE:
        return None
    return check_third_party(path, header) or check_header(path, header)


def check_tree(root):
    violations = []
    rooms = [room for room in list(ROOMS) + list(FREE) if (root / room).is_dir()]
    for room in rooms:
        for file in sorted((root / room).rglob("*")):
            if file.suffix not in SUFFIXES or not file.is_file():
                continue
            path = file.relative_to(root).as_posix()
            for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
                problem = check_line(root, path, line)
                if problem is not None:
                    violations.append(f"{path}:{number}: {problem}: {line.strip()}")
    return violations


def main():
    return report(check_tree(pathlib.Path(sys.argv[1]).resolve()), "violations of the layers")


if __name__ == "__main__":
    sys.exit(main())
