"""libmuster.so exports the functions of its headers, all with their symbol version, and nothing else.

symbols.py LIBRARY HEADER..."""

import re
import subprocess
import sys


def main(library, *headers):
    declared = set()
    for header in headers:
        with open(header, encoding="utf-8") as text:
            declared.update(re.findall(r"^MUSTER_API [^;(]*?\b(muster_\w+)\(", text.read(), re.MULTILINE))
    listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    # The version itself is a symbol as well.
    exported = {line.split()[-1] for line in listed.splitlines()} - {"MUSTER_1", "MUSTER_1@@MUSTER_1"}
    wanted = {f"{name}@@MUSTER_1" for name in declared}
    for name in sorted(wanted - exported):
        print(f"{name} is declared and not exported")
    for name in sorted(exported - wanted):
        print(f"{name} is exported and not declared")
    print(f"{len(declared)} functions")
    return 0 if declared and exported == wanted else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
