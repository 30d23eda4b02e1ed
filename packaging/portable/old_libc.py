"""Makes the libraries of an older glibc to link with, from those of a compiler.

    old_libc.py 2.28 FOLDER COMPILER

A program that is linked with them runs with that glibc and every newer one (docs/adr/0061). They hold no code. They
define each function of the compiler's glibc under the newest version that is not above the wanted one, and leave out
functions that came later, so that the linker names what old_libc_shims.c has yet to define.
"""

import pathlib
import re
import subprocess
import sys

# Before 2.34 functions of threads, dlopen and timers were in libraries of their own. Versions are not bound to one, so
# all may come from libc.so.6 here, if the others are loaded beside it.
NAMES = ("libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1")
EMPTY = ("libpthread.so.0", "libdl.so.2", "librt.so.1")
LINE = re.compile(r"\s*\d+: ([0-9a-f]+)\s+(\d+) (FUNC|IFUNC|OBJECT)\s+(?:GLOBAL|WEAK)\s+DEFAULT\s+(\d+) ([^@\s]+)(@@?)GLIBC_([0-9.]+)$")


def numbers(version):
    return tuple(map(int, version.split(".")))


def read(library, newest):
    """{symbol: (version, object's (address, size) or None)}"""
    symbols, current = {}, set()
    listed = subprocess.run(["readelf", "--dyn-syms", "--wide", library], check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        if not (found := LINE.match(line)):
            continue  # of others, private, or data of a thread
        address, size, kind, _, name, at, version = found.groups()
        if at == "@@":
            current.add(name)  # the others are for old programs only
        place = (int(address, 16), int(size)) if kind == "OBJECT" else None
        if numbers(version) <= newest and (name not in symbols or numbers(version) > numbers(symbols[name][0])):
            symbols[name] = (version, place)
    return {name: symbols[name] for name in sorted(symbols) if name in current}


def assembler(symbols):
    lines = [".text"]
    objects = {}
    for name, (_, place) in symbols.items():
        if place is None:
            lines += [f".globl {name}", f".type {name},%function", f"{name}: .byte 0"]
        else:
            objects.setdefault(place[0], []).append((place[1], name))
    lines.append(".bss")
    # Names of one object stay names of one object: a program that copies `environ` copies `__environ`.
    for names in objects.values():
        lines.append(".balign 32")
        for size, name in names:
            lines += [f".globl {name}", f".type {name},%object", f".size {name},{size}", f"{name}:"]
        lines.append(f".skip {max(size for size, _ in names)}")
    return "\n".join(lines) + '\n.section .note.GNU-stack,"",%progbits\n'


def versions(symbols):
    by_version = {}
    for name, (version, _) in symbols.items():
        by_version.setdefault(numbers(version), []).append(name)
    texts = [f"GLIBC_{'.'.join(map(str, version))} {{ global: {'; '.join(names)}; local: *; }};"
             for version, names in sorted(by_version.items())]
    return "\n".join(texts) + "\n"


def link(compiler, folder, name, symbols):
    (folder / f"{name}.s").write_text(assembler(symbols))
    script = []
    if symbols:
        (folder / f"{name}.map").write_text(versions(symbols))
        script = [f"-Wl,--version-script={folder / name}.map"]
    subprocess.run([compiler, "-shared", "-nostdlib", f"-Wl,-soname,{name}", *script, "-o", folder / name, folder / f"{name}.s"], check=True)


def main(version, folder, compiler):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        library = subprocess.run([compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
        if library != name:  # it prints the name alone of what is not there
            link(compiler, folder, name, read(library, numbers(version)))
    for name in EMPTY:
        link(compiler, folder, name, {})


main(*sys.argv[1:])
