#!/usr/bin/python3
"""house.mirror: tests/unit mirrors the tree of product code.

Each .cc of a room has a test of its name: tests/unit/launcherd/run/spawn_test.cc for launcherd/run/spawn.cc. Each test
there has a file of its name, of any kind. What has none stands in tests/house/untested.txt, and that list may only
shrink: an entry that is no longer true is a violation, and the numbers in its first line are the lengths of its two parts.

    mirror.py ROOT
    mirror.py ROOT --shrink   drops the entries that are no longer true
    mirror.py ROOT --rename   after files were renamed or moved: writes the list anew, but never a longer one
"""
import pathlib
import re
import sys

import cxx
import layers
from report import report

LIST = "tests/house/untested.txt"
TESTS = "tests/unit/"
FIRST_LINE = re.compile(r"(\d+) files without a test, (\d+) tests without a file")
HEADINGS = ("# Files without a test of their name", "# Tests without a file of their name")


def untested_files(root):
    """The .cc of product code that have no test of their name."""
    files = [path for path, _ in cxx.product_files(root, layers.ROOMS, (".cc",))]
    return [path for path in files if not (root / TESTS / f"{path.removesuffix('.cc')}_test.cc").exists()]


def tests_of_no_file(root):
    """The tests in tests/unit for which no file of product code has the name."""
    tests = sorted(file.relative_to(root).as_posix() for file in (root / TESTS).rglob("*_test.cc"))
    stems = [test.removeprefix(TESTS).removesuffix("_test.cc") for test in tests]
    return [test for test, stem in zip(tests, stems)
            if not any((root / f"{stem}{suffix}").exists() for suffix in (*cxx.PRODUCT_SUFFIXES, ".hpp"))]


def read_list(text):
    """The numbers of the first line, or None, and the two parts of the list."""
    first, *lines = text.splitlines() or [""]
    parts = ([], [])
    current = None
    for line in lines:
        if line in HEADINGS:
            current = parts[HEADINGS.index(line)]
        elif line.strip() and current is not None:
            current.append(line.strip())
    numbers = FIRST_LINE.fullmatch(first)
    return numbers and tuple(int(number) for number in numbers.groups()), parts


def write_list(parts):
    text = f"{len(parts[0])} files without a test, {len(parts[1])} tests without a file\n"
    for heading, part in zip(HEADINGS, parts):
        text += f"\n{heading}\n" + "".join(f"{path}\n" for path in sorted(part))
    return text


def differences(root, text):
    """What the list with this text says of the tree, and is not so."""
    numbers, parts = read_list(text)
    problems = []
    if numbers is None:
        problems.append(f'{LIST}:1: the first line must be "N files without a test, M tests without a file"')
    elif numbers != (len(parts[0]), len(parts[1])):
        problems.append(f"{LIST}:1: says {numbers[0]} and {numbers[1]}, but the list has {len(parts[0])} files and "
                        f"{len(parts[1])} tests")
    found = (untested_files(root), tests_of_no_file(root))
    for path in sorted(set(found[0]) - set(parts[0])):
        problems.append(f"{path}: has no test: write {TESTS}{path.removesuffix('.cc')}_test.cc")
    for path in sorted(set(found[1]) - set(parts[1])):
        problems.append(f"{path}: tests no file of its name: call it after the file that it tests")
    for listed, real in zip(parts, found):
        for path in sorted(set(listed) - set(real)):
            why = "is as it should be now" if (root / path).exists() else "is gone"
            problems.append(f"{LIST}: {path} {why}: delete its line and count again (mirror.py ROOT --shrink)")
        for path in sorted({path for path in listed if listed.count(path) > 1}):
            problems.append(f"{LIST}: {path} stands there twice")
    return problems


def change_list(root, text, is_renamed):
    """The list without stale entries; of renamed files with the new names. None if it would be longer."""
    numbers, parts = read_list(text)
    found = (untested_files(root), tests_of_no_file(root))
    if not is_renamed:
        return write_list([sorted(set(part) & set(real)) for part, real in zip(parts, found)])
    is_longer = numbers is None or any(len(real) > number for real, number in zip(found, numbers))
    return None if is_longer else write_list(found)


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    file = root / LIST
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    for option in sys.argv[2:]:
        if option not in ("--shrink", "--rename"):
            print("usage: mirror.py ROOT [--shrink | --rename]")
            return 2
        changed = change_list(root, text, option == "--rename")
        if changed is None:
            print(f"{LIST}: the tree has more entries than the first line says: write the missing tests")
            return 1
        file.write_text(changed, encoding="utf-8")
        text = changed
    return report(differences(root, text), "differences between product code and its tests")


if __name__ == "__main__":
    sys.exit(main())
