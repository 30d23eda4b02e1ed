#!/usr/bin/python3
"""house.names: one name for one type, and one namespace for one folder.

Two types (class, struct, union, enum) of product code in different files may not have one qualified name. Inline
namespaces do not count: a caller outside writes the name without them. Types in anonymous namespaces may repeat.

With --folders, each .h and .cc opens the namespace of its folder: muster::launcherd::inline run in launcherd/run. Prints
file:line of each violation and exits with 1 if there is one.

    names.py ROOT [--folders]
"""
import fnmatch
import pathlib
import sys

import cxx
import layers
from report import report

# Folders and files whose namespace is another one, with the reason. The longest entry that fits counts.
NAMESPACES = {
    "collectives/api": "muster::collectives::api",  # callers outside see C alone, so nobody needs the short name
    "collectives/device": "muster::collectives::device",  # its Segment is another one than transport/segment.h
    "agent/pmix": "muster::agent::pmix",  # its words (Service, Ready) are too general for muster::agent
    "agent/pmix/helper": "muster::agent::pmix",  # a program of its own that shares the messages of agent/pmix
    "agent/gpus/helper": "muster::agent::inline gpus",  # a program of its own that shares the report of agent/gpus
    "agent/gpus/helper/nvml_functions.h": "muster::agent::inline gpus::nvml",  # the names of NVML's own functions
}

# Patterns of files that need no namespace of ours, with the reason.
FREE = {
    "collectives/include/*": "the public headers are C, or name the namespace that users see",
    "collectives/api/c_api*.cc": "they define functions that a public header declares as C",
    "base/fmt_library.cc": "it compiles fmt, and has no line of ours",
}


def load(root):
    """Path -> what cxx.Reader found there."""
    files = cxx.product_files(root, layers.ROOMS)
    return {path: cxx.Reader(file.read_text(encoding="utf-8", errors="replace")) for path, file in files}


def check_types(readers):
    """The violations of "one type for one name"."""
    places = {}
    for path, reader in readers.items():
        for name, line in reader.types:
            if "::" in name:  # a type of no namespace belongs to a main program
                places.setdefault(name, {}).setdefault(path, line)
    violations = []
    for name, lines in sorted(places.items()):
        if len(lines) > 1:
            (first, first_line), *others = lines.items()
            for path, line in others:
                violations.append(f"{path}:{line}: {name} is defined in {first}:{first_line} already: rename one of them")
    return violations


def expected_namespace(path):
    """The namespace of a file's folder, or None where every one is allowed."""
    if any(fnmatch.fnmatch(path, pattern) for pattern in FREE):
        return None
    for place in sorted(NAMESPACES, key=len, reverse=True):
        if path == place or path.startswith(place + "/"):
            return NAMESPACES[place]
    room, *folders = path.split("/")[:-1]
    return "::".join(["muster", room] + [f"inline {folder}" for folder in folders])


def check_folders(readers):
    """The violations of "one namespace for one folder"."""
    violations = []
    for path, reader in readers.items():
        expected = expected_namespace(path)
        opened = [name for name, _ in reader.namespaces]
        if expected is None or expected in opened or reader.has_main or not path.endswith((".h", ".cc")):
            continue
        ours = [(name, line) for name, line in reader.namespaces if name.split("::")[0] == "muster"]
        if not ours and reader.has_c_linkage:
            continue
        name, line = ours[0] if ours else ("none", 1)
        violations.append(f"{path}:{line}: opens namespace {name}, its folder's is {expected}")
    return violations


def main():
    readers = load(pathlib.Path(sys.argv[1]).resolve())
    violations = check_types(readers)
    if "--folders" in sys.argv[2:]:
        violations += check_folders(readers)
    return report(violations, "violations of the names of types and namespaces")


if __name__ == "__main__":
    sys.exit(main())
