#!/usr/bin/python3
"""house.readme: each room, and each folder inside one with more than ten files of code, explains itself.

Its README.md has at most 40 lines and the sections "Threads" and "Does not belong here". Each file that stands in
backticks in a row of its table is there. Prints each violation and exits with 1 if there is one.

    readme.py ROOT
"""
import pathlib
import re
import sys

import layers
from report import report

ROOMS = [*layers.ROOMS, "python"]
CODE = (".h", ".hpp", ".cc", ".cu", ".cuh", ".c", ".py", ".proto")
FILES_WITHOUT = 10  # a folder with so many files of code needs no README.md
LINES = 40
SECTIONS = ("Threads", "Does not belong here")
NAMED_FILE = re.compile(r"`([\w./-]+\.(?:h|hpp|cc|cu|cuh|c|py|proto|md))`")


def folders(root):
    """The folders that need a README.md, by their path from the root."""
    for room in ROOMS:
        if not (root / room).is_dir():
            continue
        yield room
        for folder in sorted(path for path in (root / room).rglob("*") if path.is_dir()):
            if sum(file.suffix in CODE for file in folder.iterdir()) > FILES_WITHOUT:
                yield folder.relative_to(root).as_posix()


def check_text(root, folder, text):
    """The violations of one README.md."""
    path = f"{folder}/README.md"
    lines = text.splitlines()
    if len(lines) > LINES:
        yield f"{path}: has {len(lines)} lines: shorten it to {LINES}"
    for section in SECTIONS:
        if f"## {section}" not in [line.rstrip() for line in lines]:
            yield f'{path}: the section "## {section}" is missing'
    for number, line in enumerate(lines, 1):
        for name in NAMED_FILE.findall(line) if line.lstrip().startswith("|") else ():
            if not (root / folder / name).exists() and not (root / name).exists():
                yield f"{path}:{number}: `{name}` is not in {folder}/"


def check_tree(root):
    violations = []
    for folder in folders(root):
        file = root / folder / "README.md"
        if file.is_file():
            violations += check_text(root, folder, file.read_text(encoding="utf-8"))
        else:
            violations.append(f"{folder}/README.md is missing: say what the folder is for, and what does not belong here")
    return violations


def main():
    return report(check_tree(pathlib.Path(sys.argv[1]).resolve()), "violations of the READMEs of rooms and folders")


if __name__ == "__main__":
    sys.exit(main())
