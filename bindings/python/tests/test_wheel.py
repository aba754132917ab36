# SPDX-License-Identifier: Apache-2.0
"""The wheel: its tag against the symbol versions that the library needs, its size, its contents.

FLASHATTN_WHEEL names the file; tools/test-python builds it.
"""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

# What PEP 600's manylinux_2_35 promises of a system: glibc itself, and the libstdc++ and libgcc of that time, as
# auditwheel's policy for it lists them.
LIMITS = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0, 0)}
LIBRARIES = {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "libdl.so.2", "libpthread.so.0",
             "ld-linux-x86-64.so.2"}  # fmt: skip


@pytest.fixture(scope="module")
def wheel() -> Path:
    named = os.environ.get("FLASHATTN_WHEEL")
    if not named:
        pytest.skip("FLASHATTN_WHEEL is not set; tools/test-python sets it")
    return Path(named)


@pytest.fixture(scope="module")
def library(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract("flashattn/lib/libflashattn.so.0", tmp_path_factory.mktemp("wheel")))


def readelf(*arguments: str) -> str:
    return subprocess.run(["readelf", "-W", *arguments], check=True, capture_output=True, text=True).stdout


def needed_versions(text: str) -> list[tuple[str, tuple[int, ...]]]:
    """(family, version) of every version that readelf -V lists as needed."""
    needs = text[text.index("Version needs section") :]
    found = re.findall(r"Name: (\w+?)_([0-9.]+)\b", needs)
    return [(family, tuple(map(int, version.split(".")))) for family, version in found]


def test_tag(wheel: Path) -> None:
    assert re.fullmatch(r"flashattn-0\.1\.0-py3-none-manylinux_2_35_(x86_64|aarch64)\.whl", wheel.name)


def test_symbol_versions_are_within_the_tag(library: Path) -> None:
    versions = needed_versions(readelf("-V", str(library)))
    assert ("GLIBC", (2, 34)) in versions
    for family, version in versions:
        assert version <= LIMITS[family], f"{family}_{'.'.join(map(str, version))} is newer than the wheel's tag allows"


def test_the_gate_sees_a_newer_symbol() -> None:
    text = "Version needs section '.gnu.version_r':\n  Name: GLIBC_2.36  Flags: none\n  Name: GLIBCXX_3.4.9\n"
    assert needed_versions(text) == [("GLIBC", (2, 36)), ("GLIBCXX", (3, 4, 9))]
    assert (2, 36) > LIMITS["GLIBC"] and (3, 4, 9) < LIMITS["GLIBCXX"]


def test_needed_libraries_are_the_systems_own(library: Path) -> None:
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", str(library))))
    assert needed and needed <= LIBRARIES | {"ld-linux-aarch64.so.1"}


def test_size_and_contents(wheel: Path) -> None:
    assert wheel.stat().st_size < 30e6
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if ".so" in name] == ["flashattn/lib/libflashattn.so.0"]
    for name in ("flashattn/py.typed", "flashattn/torch.py", "flashattn/integrations/transformers.py"):
        assert name in names
    assert all(name.startswith(("flashattn/", "flashattn-0.1.0.dist-info/")) for name in names)
