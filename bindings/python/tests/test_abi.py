# SPDX-License-Identifier: Apache-2.0
"""The declarations in flashattn._abi against the C header, as a C compiler sees it."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from flashattn import _abi


@pytest.fixture(scope="module")
def header(root: Path) -> str:
    return (root / "include" / "flashattn.h").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def compiled(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """What a C99 compiler says: "struct", "struct.field", "struct.field size" and constants, each a number."""
    compiler = shutil.which("cc")
    assert compiler, "a C compiler is needed to read the header"
    lines = []
    for name, struct in _abi.STRUCTS.items():
        lines.append(f'  printf("{name} %zu\\n", sizeof({name}));')
        for field, _ in struct._fields_:
            lines.append(f'  printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
            lines.append(f'  printf("{name}.{field}:size %zu\\n", sizeof((({name} *)0)->{field}));')
    for name in constants():
        lines.append(f'  printf("{name} %lld\\n", (long long)FLASHATTN_{name});')
    lines.append('  printf("VERSION %lld\\n", (long long)FLASHATTN_VERSION);')
    folder = tmp_path_factory.mktemp("abi")
    source = folder / "layout.c"
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <flashattn.h>\nint main(void) {\n"
        + "\n".join(lines)
        + "\n  return 0;\n}\n"
    )
    program = folder / "layout"
    subprocess.run([compiler, "-std=c99", f"-I{root / 'include'}", str(source), "-o", str(program)], check=True)
    output = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    return {key: int(value) for key, value in (line.rsplit(" ", 1) for line in output.splitlines())}


def constants() -> dict[str, int]:
    prefixes = ("BACKEND_", "DTYPE_", "LAYOUT_", "FEATURE_", "FLAG_", "PRECISION_", "OPTION_", "STATUS_")
    return {name: value for name, value in vars(_abi).items() if name.startswith(prefixes)}


def test_structs_have_the_layout_of_the_header(compiled: dict[str, int]) -> None:
    for name, struct in _abi.STRUCTS.items():
        assert ctypes.sizeof(struct) == compiled[name], name
        for field, kind in struct._fields_:
            assert getattr(struct, field).offset == compiled[f"{name}.{field}"], f"{name}.{field}"
            assert ctypes.sizeof(kind) == compiled[f"{name}.{field}:size"], f"{name}.{field}"


def test_no_bytes_of_a_struct_are_without_a_field() -> None:
    # With the test above: a field of the header that is missing here would leave a hole.
    for name, struct in _abi.STRUCTS.items():
        end = 0
        for field, kind in struct._fields_:
            assert getattr(struct, field).offset == end, f"{name}: a hole before {field}"
            end += ctypes.sizeof(kind)
        assert end == ctypes.sizeof(struct), f"{name}: a hole at the end"


def test_constants_are_those_of_the_header(compiled: dict[str, int]) -> None:
    assert len(constants()) > 30
    for name, value in constants().items():
        assert value == compiled[name], name
    major, minor, patch = _abi.VERSION
    assert major * 1000000 + minor * 1000 + patch == compiled["VERSION"]


def test_every_struct_of_the_header_is_here(header: str) -> None:
    names = set(re.findall(r"^} (flashattn_\w+_t);", header, re.MULTILINE))
    assert names == set(_abi.STRUCTS)


def test_prototypes_count_as_many_arguments_as_the_header(header: str) -> None:
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    declared = dict(re.findall(r"FLASHATTN_CALL (flashattn_\w+)\(([^;]*?)\);", text))
    assert len(declared) > 25
    for name, (_, arguments) in _abi.PROTOTYPES.items():
        parameters = declared[name].strip()
        assert len(arguments) == (0 if parameters == "void" else parameters.count(",") + 1), name
