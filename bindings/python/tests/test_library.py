# SPDX-License-Identifier: Apache-2.0
"""Which library is opened, what is said when it is the wrong one, and two copies in one process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flashattn
from flashattn import _library

PROGRAM = "import flashattn; print(flashattn._library.default().path)"


@pytest.fixture(scope="module")
def shared(root: Path) -> Path:
    """The library under test, as a file."""
    named = os.environ.get("FLASHATTN_BUILD")
    build = Path(named) if named else root / "build" / "release"
    library = build / _library.SONAME
    assert library.exists(), f"{library}: build the library first"
    return library.resolve()


def compile_library(folder: Path, name: str, source: str) -> Path:
    (folder / "source.c").write_text(source)
    target = folder / name
    subprocess.run(["cc", "-shared", "-fPIC", str(folder / "source.c"), "-o", str(target)], check=True)
    return target


def python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    merged = {key: x for key, x in os.environ.items() if key != "FLASHATTN_LIBRARY"} | environment
    return subprocess.run([sys.executable, "-c", program], env=merged, capture_output=True, text=True, check=False)


def test_the_order_of_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packaged = tmp_path / _library.SONAME
    packaged.touch()
    monkeypatch.setattr(_library, "_PACKAGED", str(packaged))
    monkeypatch.setenv("FLASHATTN_LIBRARY", "/named/by/environment.so")
    assert _library.find("/explicit/path.so") == "/explicit/path.so"
    assert _library.find() == "/named/by/environment.so"
    monkeypatch.delenv("FLASHATTN_LIBRARY")
    assert _library.find() == str(packaged)
    packaged.unlink()
    assert _library.find() == "libflashattn.so.0"


def test_the_environment_names_the_library(shared: Path, tmp_path: Path) -> None:
    copy = tmp_path / "mine.so"
    shutil.copy(shared, copy)
    done = python(PROGRAM, FLASHATTN_LIBRARY=str(copy))
    assert done.stdout.strip() == str(copy), done.stderr


def test_the_system_library_comes_last(shared: Path, tmp_path: Path) -> None:
    shutil.copy(shared, tmp_path / _library.SONAME)
    program = f"import flashattn; flashattn._library._PACKAGED = '/none'; {PROGRAM}"
    done = python(program, LD_LIBRARY_PATH=str(tmp_path))
    assert done.stdout.strip() == _library.SONAME, done.stderr


def test_a_named_place_is_not_skipped() -> None:
    done = python(PROGRAM, FLASHATTN_LIBRARY="/nowhere/libflashattn.so.0")
    assert "LibraryError: libflashattn could not be loaded: /nowhere/libflashattn.so.0" in done.stderr
    assert "FLASHATTN_LIBRARY" in done.stderr
    with pytest.raises(ImportError, match="/nowhere/else.so"):
        flashattn.Library("/nowhere/else.so")


@pytest.mark.parametrize(
    ("number", "text"),
    [(2000, "0.0.2"), (1000000, "1.0.0"), (1001000, "1.1.0")],
)
def test_another_version_is_refused(tmp_path: Path, number: int, text: str) -> None:
    if number == 2000:
        number, text = 2, "0.0.2"
    library = compile_library(tmp_path, "old.so", f"unsigned flashattn_version(void) {{ return {number}u; }}\n")
    with pytest.raises(flashattn.LibraryError, match=f"old.so is libflashattn {text}; this package needs 0.1 or a newer 0"):
        flashattn.Library(library)


def test_versions_that_are_taken() -> None:
    assert _library.check_version(1000, "x") == (0, 1, 0)
    assert _library.check_version(1007, "x") == (0, 1, 7)
    assert _library.check_version(2000, "x") == (0, 2, 0)


def test_another_library_is_refused(tmp_path: Path) -> None:
    library = compile_library(tmp_path, "other.so", "int other(void) { return 1; }\n")
    with pytest.raises(flashattn.LibraryError, match="other.so is not a libflashattn.*flashattn_version"):
        flashattn.Library(library)
    library = compile_library(tmp_path, "half.so", "unsigned flashattn_version(void) { return 1000u; }\n")
    with pytest.raises(flashattn.LibraryError, match="half.so is not a libflashattn of this version"):
        flashattn.Library(library)


def test_two_copies_in_one_process(shared: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    paths = [tmp_path / "one.so", tmp_path / "two.so"]
    for path in paths:
        shutil.copy(shared, path)
    first, second = (flashattn.Library(path) for path in paths)
    assert first.c._handle != second.c._handle
    handles = [flashattn.Handle("cpu", library=library, threads=n) for library, n in ((first, 1), (second, 2))]
    assert [handle.threads for handle in handles] == [1, 2]
    x = rng.standard_normal((1, 100, 4, 16)).astype("f4")
    want = flashattn.attention(x, x, x)
    for _ in range(3):
        for handle in handles:
            np.testing.assert_array_equal(flashattn.attention(x, x, x, handle=handle), want)
    # An error in one is not seen in the other: its text is the other's own, from before.
    with pytest.raises(ValueError, match="softcap is -3"):
        flashattn.attention(x, x, x, softcap=-3.0, handle=handles[0])
    assert b"-3" in first.c.flashattn_last_error()
    assert b"-3" not in second.c.flashattn_last_error()
    handles[0].close()
    np.testing.assert_array_equal(flashattn.attention(x, x, x, handle=handles[1]), want)
    handles[1].close()


def test_importing_opens_nothing() -> None:
    done = python("import flashattn, sys; print(flashattn._library._default, 'numpy' in sys.modules, 'torch' in sys.modules)")
    assert done.stdout.strip() == "None False False", done.stderr


def test_nothing_is_printed(shared: Path) -> None:
    program = "import numpy as n, flashattn; x = n.ones((1, 2, 2, 8), 'f4'); flashattn.attention(x, x, x)"
    done = python(program, FLASHATTN_LIBRARY=str(shared))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
