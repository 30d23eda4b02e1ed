"""Makes a wheel of Muster's Python with libmuster.so inside: pip install ./python

The wheel gets the library that MUSTER_LIBRARY names, or else build/release/lib/libmuster.so of the tree. If neither
exists, CMake builds the library. That build needs what `tools/install-dependencies` installs. All files are written to
build/python-wheel of the tree.
"""

import os
import pathlib
import re
import shutil
import subprocess

from setuptools import find_namespace_packages, setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution
from wheel.bdist_wheel import bdist_wheel

ROOT = pathlib.Path(__file__).resolve().parents[1]
SCRATCH = ROOT / "build" / "python-wheel"
LIBRARY = "lib/libmuster.so"
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


class BuildWithLibrary(build_py):
    """Builds the modules, and copies the library beside them."""

    def run(self):
        super().run()
        if not self.editable_mode:  # an editable installation finds the library in the build tree
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
setup(version=version(), packages=find_namespace_packages(include=["muster", "muster.*"]), distclass=WithLibrary,
      cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
      options={"build": {"build_base": str(SCRATCH), "build_lib": str(SCRATCH / "lib")},
               "egg_info": {"egg_base": str(SCRATCH)}})
