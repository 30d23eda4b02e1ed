"""Makes a wheel of Muster's Python with libmuster.so inside: pip install ./python

The library is the one that MUSTER_LIBRARY names, else build/release/lib/libmuster.so of the tree, where that is built;
else CMake builds it here, which needs what `tools/install-dependencies` installs. Everything that is written goes to
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
# Python adds the folders that such a file names behind those that it searches already. So `import horovod` is Muster's
# also without hvdrun, and an installed Horovod comes before it.
PATH_FILE = "muster-horovod.pth"
HOROVOD_FOLDER = "muster/dropin\n"


def version():
    """The version in the tree's CMakeLists.txt."""
    return re.search(r"^project\(muster VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]


def find_library():
    """The path of libmuster.so, which is built if need be."""
    built = pathlib.Path(os.environ.get("MUSTER_LIBRARY") or ROOT / "build" / "release" / LIBRARY)
    if built.exists():
        return built
    tree = SCRATCH / "cmake"
    subprocess.run(["cmake", "-S", ROOT, "-B", tree, "-DCMAKE_BUILD_TYPE=Release", "-DMUSTER_WITH_GRPC=OFF"], check=True)
    subprocess.run(["cmake", "--build", tree, "--target", "libmuster", "--parallel"], check=True)
    return tree / LIBRARY


class BuildWithLibrary(build_py):
    """The modules, and the library beside them."""

    def run(self):
        super().run()
        if not self.editable_mode:  # which finds the library in the build tree
            shutil.copyfile(find_library(), pathlib.Path(self.build_lib) / "muster" / "libmuster.so")
            (pathlib.Path(self.build_lib) / PATH_FILE).write_text(HOROVOD_FOLDER)


class PlatformWheel(bdist_wheel):
    """For any Python 3 of this platform: the library knows nothing of Python."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class WithLibrary(Distribution):
    """Not the same for every platform."""

    def has_ext_modules(self):
        return True


SCRATCH.mkdir(parents=True, exist_ok=True)
shutil.rmtree(SCRATCH / "lib", ignore_errors=True)  # a module that is gone from the tree stays out of the wheel
setup(version=version(), packages=find_namespace_packages(include=["muster", "muster.*"]), distclass=WithLibrary,
      cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
      options={"build": {"build_base": str(SCRATCH), "build_lib": str(SCRATCH / "lib")},
               "egg_info": {"egg_base": str(SCRATCH)}})
