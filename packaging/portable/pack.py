"""Makes one file of the portable programs: a tarball, or a wheel for pip. Of one build and one commit both are the same
byte for byte.

    pack.py tarball|wheel BUILD [FOLDER [LEVEL]]

BUILD is the folder of the release build, in which the target `portable` is built. The file is put there, or into FOLDER.
LEVEL is zlib's, 1 to 9: tests have no time for a small file.
"""

import base64
import gzip
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile

TREE = pathlib.Path(__file__).resolve().parents[2]
GLIBC = "2_28"
# Folders of an installation that a wheel puts below sys.prefix. Services and what C++ programs need are left out.
WHEEL_FOLDERS = ("libexec", "share/man", "share/bash-completion", "share/zsh", "share/fish", "share/muster")


def epoch():
    """The time of all files: SOURCE_DATE_EPOCH, or that of the commit."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    git = subprocess.run(["git", "-C", TREE, "log", "-1", "--format=%ct"], capture_output=True, text=True)
    return int(git.stdout) if git.returncode == 0 else 0


def version():
    return re.search(r"^project\(muster VERSION (\S+)", (TREE / "CMakeLists.txt").read_text(), re.MULTILINE)[1]


def staged(build, stage):
    """A prefix with everything that is installed, and the portable programs in the place of this machine's."""
    # With a component, so that CMake's list for `uninstall` stays as it is. Units of systemd name /usr/local.
    subprocess.run(["cmake", "--install", build, "--prefix", "/usr/local", "--component", "Unspecified"], check=True,
                   env=os.environ | {"DESTDIR": str(stage)}, stdout=subprocess.DEVNULL)
    prefix = pathlib.Path(stage) / "usr" / "local"
    for folder in ("bin", "lib"):
        for file in (build / "portable" / folder).iterdir():
            if not file.is_symlink():
                shutil.copyfile(file, prefix / folder / file.name)
    for cache in prefix.rglob("__pycache__"):
        shutil.rmtree(cache)
    return prefix


def tarball(folder, prefix, level):
    name = f"muster-{version()}-linux-{platform.machine()}-portable"
    result = folder / f"{name}.tar.gz"
    with open(result, "wb") as file, gzip.GzipFile("", "wb", level, mtime=0, fileobj=file) as zipped, \
            tarfile.open(mode="w", fileobj=zipped, format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(prefix.rglob("*")):
            entry = archive.gettarinfo(path, f"{name}/{path.relative_to(prefix)}")
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = epoch(), 0, 0, "root", "root"
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            with open(path, "rb") if entry.isreg() else open(os.devnull, "rb") as content:
                archive.addfile(entry, content)
    return result


def metadata(project):
    """METADATA and entry_points.txt of a wheel, from pyproject.toml."""
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version()}", f"Summary: {project['description']}",
             f"License: {project['license']['text']}", f"Requires-Python: {project['requires-python']}"]
    lines += [f"Author: {author['name']}" for author in project["authors"]]
    lines += [f"Project-URL: {what}, {url}" for what, url in project.get("urls", {}).items()]
    lines += [f"Classifier: {classifier}" for classifier in project["classifiers"]]
    for extra, needed in sorted(project.get("optional-dependencies", {}).items()):
        lines += [f"Provides-Extra: {extra}", *(f"Requires-Dist: {each} ; extra == '{extra}'" for each in needed)]
    lines += ["License-File: LICENSE", "Description-Content-Type: text/markdown", "", (TREE / "README.md").read_text()]
    groups = project["entry-points"] | ({"console_scripts": project["scripts"]} if "scripts" in project else {})
    points = [f"[{group}]\n" + "".join(f"{name} = {what}\n" for name, what in sorted(names.items()))
              for group, names in sorted(groups.items())]
    return "\n".join(lines), "\n".join(points)


def wheel(folder, prefix, level):
    """Programs lie in the scheme `scripts`: pip copies them to bin as they are, so no Python starts before them."""
    name = f"muster-{version()}"
    tag = f"py3-none-manylinux_{GLIBC}_{platform.machine()}"
    info, data = f"{name}.dist-info", f"{name}.data"
    about, points = metadata(tomllib.loads((TREE / "python" / "pyproject.toml").read_text())["project"])
    files = {"muster-horovod.pth": b"muster/dropin\n",  # as in setup.py
             f"{info}/METADATA": about.encode(),
             f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: muster\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
             f"{info}/entry_points.txt": points.encode(),
             f"{info}/LICENSE": (TREE / "LICENSE").read_bytes()}
    programs = set()
    for path in sorted((prefix / "bin").iterdir()):
        if not path.is_symlink():  # horovodrun would replace that of Horovod itself
            files[f"{data}/scripts/{path.name}"] = path.read_bytes()
            programs.add(f"{data}/scripts/{path.name}")
    # Not lib: `pip --target` leaves out such a folder. python/muster/_library.py looks here.
    files[f"{data}/data/libexec/muster/libmuster.so.0"] = (prefix / "lib" / f"libmuster.so.{version()}").read_bytes()
    for part in WHEEL_FOLDERS:
        for path in sorted(path for path in (prefix / part).rglob("*") if path.is_file()):
            place = f"{data}/data/{path.relative_to(prefix)}"
            files[place] = path.read_bytes()
            if path.stat().st_mode & 0o100:
                programs.add(place)
    package = prefix / "share" / "muster" / "python"
    for path in sorted(path for path in package.rglob("*") if path.is_file()):
        files[str(path.relative_to(package))] = path.read_bytes()
    record = "".join(f"{place},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()},{len(content)}\n"
                     for place, content in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    result = folder / f"{name}-{tag}.whl"
    when = time.gmtime(max(epoch(), 315532800))[:6]  # a zip file begins in 1980
    with zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for place, content in files.items():
            entry = zipfile.ZipInfo(place, when)
            entry.external_attr = (0o100755 if place in programs else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content, compresslevel=level)
    return result


def main(kind, build, folder=None, level=6):
    build = pathlib.Path(build).resolve()
    with tempfile.TemporaryDirectory(dir=build / "portable") as stage:
        made = {"tarball": tarball, "wheel": wheel}[kind](pathlib.Path(folder or build), staged(build, stage), int(level))
    print(f"{made}: {made.stat().st_size / 2**20:.1f} MiB, sha256 {hashlib.sha256(made.read_bytes()).hexdigest()}")


main(*sys.argv[1:])
