#!/usr/bin/python3
"""house.format: every tracked C and C++ file is as clang-format 14 writes it with the tree's .clang-format.

Exits with 77 (skipped) where that version is not installed: others format differently.

    format.py ROOT
"""
import pathlib
import shutil
import subprocess
import sys

SUFFIXES = (".h", ".cc", ".c", ".cu")
SKIPPED = 77


def find_formatter():
    for name in ("clang-format-14", "clang-format"):
        path = shutil.which(name)
        if path is None:
            continue
        version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
        if "version 14." in version:
            return path
    return None


def tracked_files(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    files = [root / name for name in listed.split("\0") if name.endswith(SUFFIXES)]
    return [str(file) for file in files if file.is_file()]


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    formatter = find_formatter()
    if formatter is None or not (root / ".git").exists():
        print("skipped: needs clang-format 14 and a git checkout")
        return SKIPPED
    files = tracked_files(root)
    done = subprocess.run([formatter, "--dry-run", "-Werror", "--style=file", *files], capture_output=True, text=True)
    wrong = sorted({line.split(":", 1)[0] for line in done.stderr.splitlines() if "clang-format-violations" in line})
    for file in wrong:
        print(f"{pathlib.Path(file).relative_to(root)}: run clang-format -i on it")
    if done.returncode != 0 and not wrong:
        print(done.stderr)
    print(f"{len(files)} files checked, {len(wrong)} to be formatted")
    return 1 if done.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
