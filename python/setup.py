"""Makes a wheel of Muster's Python with libmuster.so inside: pip install ./python

The wheel gets the library that MUSTER_LIBRARY names, or else build/release/lib/libmuster.so of the tree. If neither
exists, CMake builds the library. That build needs what `tools/install-dependencies` installs. All files are written to
build/python-wheel of the tree.
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import find_namespace_packages, setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution
from wheel.bdist_wheel import bdist_wheel

ROOT = pathlib.Path(__file__).resolve().parents[1]
SCRATCH = ROOT / "build" / "python-wheel"
LIBRARY = "lib/libmuster.so"
# launcher.proto as the last one, and before it what it imports. python/CMakeLists.txt has the same list.
CONTRACTS = [f"muster/v1/{name}.proto" for name in ("agent", "cleanup", "job", "launcher")]
# Python appends the folders that a .pth file names to the folders that it searches. So `import horovod` finds Muster's
# package even without hvdrun. If another Horovod is installed, Python finds that one first.
PATH_FILE = "muster-horovod.pth"
HOROVOD_FOLDER = "muster/dropin\n"


def version():
    """Returns the version in the tree's CMakeLists.txt."""
    return re.search(r"^project\(muster VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]


def find_library():
    """Returns the path of libmuster.so. Builds the library if it does not exist."""
    built = pathlib.Path(os.environ.get("MUSTER_LIBRARY") or ROOT / "build" / "release" / LIBRARY)
    if built.exists():
        return built
    tree = SCRATCH / "cmake"
    subprocess.run(["cmake", "-S", ROOT, "-B", tree, "-DCMAKE_BUILD_TYPE=Release", "-DMUSTER_WITH_GRPC=OFF"], check=True)
    subprocess.run(["cmake", "--build", tree, "--target", "libmuster", "--parallel"], check=True)
    return tree / LIBRARY


def protoc_command():
    """Returns protoc with a plugin for gRPC's Python: Debian's, or that of the package grpcio-tools. None if none is here."""
    plugin = shutil.which("grpc_python_plugin")
    if shutil.which("protoc") and plugin:
        return ["protoc", f"--plugin=protoc-gen-grpc_python={plugin}"]
    return [sys.executable, "-m", "grpc_tools.protoc"] if importlib.util.find_spec("grpc_tools") else None


def generate_messages(out):
    """Generates the messages of muster.v1 below the folder `out`. muster.client needs them, and nothing else does."""
    protoc = protoc_command()
    if protoc is None:
        print("warning: this wheel has no messages for muster.client, because protoc and grpc_python_plugin (Debian: "
              "protobuf-compiler protobuf-compiler-grpc) or the package grpcio-tools are not installed", file=sys.stderr)
        return
    protoc += ["-I", str(ROOT / "proto")]
    subprocess.run([*protoc, f"--python_out={out}", f"--pyi_out={out}", *CONTRACTS], check=True)
    subprocess.run([*protoc, f"--grpc_python_out={out}", CONTRACTS[-1]], check=True)


class BuildWithLibrary(build_py):
    """Builds the modules, copies the library beside them, and generates the messages."""

    def run(self):
        super().run()
        if not self.editable_mode:  # an editable installation finds both in the build tree
            generate_messages(self.build_lib)
            shutil.copyfile(find_library(), pathlib.Path(self.build_lib) / "muster" / "libmuster.so")
            (pathlib.Path(self.build_lib) / PATH_FILE).write_text(HOROVOD_FOLDER)


class PlatformWheel(bdist_wheel):
    """Makes a wheel for any Python 3 of this platform, because the library does not depend on Python."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class WithLibrary(Distribution):
    """Marks the package as specific to a platform, because it contains the library."""

    def has_ext_modules(self):
        return True


SCRATCH.mkdir(parents=True, exist_ok=True)
shutil.rmtree(SCRATCH / "lib", ignore_errors=True)  # otherwise deleted modules would stay in the wheel
# PSI/J and Snakemake look for plugins in packages of these names.
PACKAGES = [*find_namespace_packages(include=["muster", "muster.*"]), "psij-descriptors", "snakemake_executor_plugin_muster"]

setup(version=version(), packages=PACKAGES, distclass=WithLibrary,
      cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
      options={"build": {"build_base": str(SCRATCH), "build_lib": str(SCRATCH / "lib")},
               "egg_info": {"egg_base": str(SCRATCH)}})
