# SPDX-License-Identifier: Apache-2.0
"""Puts the shared library into the wheel and names the wheel after it; all else is in pyproject.toml.

FLASHATTN_BUILD names the build directory that holds libflashattn.so.0; default build/release of this repository.
"""

import os
import platform
import shutil
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
SONAME = "libflashattn.so.0"
# What the library needs: glibc 2.34 and the libstdc++ of GCC 12, which PEP 600 counts under glibc 2.35.
# tests/test_wheel.py reads the symbol versions of the library and holds this to them.
PLATFORM = "manylinux_2_35"


class BuildPy(build_py):
    """Adds the library, stripped of nothing and under its SONAME, beside the modules."""

    def run(self) -> None:
        super().run()
        build = Path(os.environ.get("FLASHATTN_BUILD", HERE.parents[1] / "build" / "release"))
        library = build / SONAME
        if not library.exists():
            raise SystemExit(
                f"{library} is not there: build it first (cmake --preset release && cmake --build --preset release), or "
                "set FLASHATTN_BUILD"
            )
        target = Path(self.build_lib) / "flashattn" / "lib"
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library, target / SONAME)


class BdistWheel(bdist_wheel):
    """Any Python 3, no ABI, one platform: the library is opened with ctypes."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", f"{PLATFORM}_{platform.machine()}"


class PlatformDistribution(Distribution):
    """Installs for one platform although nothing is compiled."""

    def has_ext_modules(self) -> bool:
        return True


setup(distclass=PlatformDistribution, cmdclass={"build_py": BuildPy, "bdist_wheel": BdistWheel})
