# SPDX-License-Identifier: Apache-2.0
"""The golden cases that every binding runs (bindings/golden), through this binding's structs and prototypes."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flashattn import _abi, _library

TYPES = {"f32": "<f4", "f16": "<f2", "bf16": ml_dtypes.bfloat16, "u8": "u1", "i32": "<i4", "i64": "<i8"}
FILLING = bytes.fromhex("e57f")
GUARD = 64


class Case:
    def __init__(self, name: str) -> None:
        self.name = name
        self.problem: dict[str, str] = {}
        self.call: dict[str, str] = {}
        self.buffers: dict[str, np.ndarray] = {}
        self.fills: dict[str, tuple[str, int]] = {}
        self.wants: dict[str, tuple[float, np.ndarray]] = {}
        self.status = 0
        self.error = ""


def read(path: Path) -> list[Case]:
    cases: list[Case] = []
    lines = path.read_text(encoding="ascii").splitlines()
    assert lines[0] == "flashattn golden 1"
    at = 1

    def data(count: int, kind: Any) -> np.ndarray:
        nonlocal at
        size = count * np.dtype(kind).itemsize
        raw = b""
        while len(raw) < size:
            raw += bytes.fromhex(lines[at])
            at += 1
        assert len(raw) == size
        return np.frombuffer(raw, kind)

    while at < len(lines):
        word, _, rest = lines[at].partition(" ")
        at += 1
        if word == "case":
            case = Case(rest)
        elif word in ("problem", "call"):
            field, value = rest.split(" ", 1)
            getattr(case, word)[field] = value
        elif word == "buffer":
            field, kind, count = rest.split(" ")
            case.buffers[field] = data(int(count), TYPES[kind])
        elif word == "fill":
            field, kind, count = rest.split(" ")
            case.fills[field] = (kind, int(count))
        elif word == "status":
            case.status = int(rest)
        elif word == "error":
            case.error = rest
        elif word == "want":
            field, tolerance = rest.split(" ")
            case.wants[field] = (float(tolerance), data(case.fills[field][1], "<f4"))
        elif word == "end":
            cases.append(case)
        else:
            assert not word, f"line {at}: {word}"
    return cases


CASES = read(Path(__file__).resolve().parents[2] / "golden" / "golden.txt")


def set_field(struct: Any, path: str, text: str) -> None:
    *parents, field = path.split(".")
    for parent in parents:
        struct = getattr(struct, parent)
    kind = dict(struct._fields_)[field]
    value: Any = float(text) if kind is ctypes.c_float else text.encode() if field == "kernel" else int(text)
    setattr(struct, field, value)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden(case: Case) -> None:
    library = _library.default()
    problem: Any = _abi.new(_abi.Problem)
    call: Any = _abi.new(_abi.Call)
    for field, value in case.problem.items():
        set_field(problem, field, value)
    for field, value in case.call.items():
        set_field(call, field, value)
    outputs = {}
    for field, (kind, count) in case.fills.items():
        size = count * np.dtype(TYPES[kind]).itemsize
        outputs[field] = np.frombuffer(bytearray(FILLING * ((size + 2 * GUARD) // 2)), np.uint8)
    for field, buffer in (*case.buffers.items(), *((f, x[GUARD:]) for f, x in outputs.items())):
        target = getattr(call, field)
        if isinstance(target, ctypes.Structure):
            target.data = buffer.ctypes.data
        else:
            setattr(call, field, buffer.ctypes.data)
    handle = library.handle(_abi.BACKEND_CPU, 0)
    status = library.c.flashattn_attention(handle.pointer, ctypes.byref(problem), ctypes.byref(call), None)
    assert status == case.status, library.c.flashattn_last_error()
    filled = {field: np.frombuffer(FILLING * (len(x) // 2), np.uint8) for field, x in outputs.items()}
    if status != 0:
        assert case.error in library.c.flashattn_last_error().decode()
        for field, x in outputs.items():
            np.testing.assert_array_equal(x, filled[field])
        return
    for field, x in outputs.items():
        kind, _ = case.fills[field]
        np.testing.assert_array_equal(x[:GUARD], filled[field][:GUARD])
        np.testing.assert_array_equal(x[-GUARD:], filled[field][-GUARD:])
        if field not in case.wants:
            continue
        got = x[GUARD:-GUARD].view(TYPES[kind]).astype(np.float32)
        untouched = (x[GUARD:-GUARD] == filled[field][GUARD:-GUARD]).reshape(len(got), -1).all(axis=1)
        tolerance, want = case.wants[field]
        finite = np.isfinite(want)
        assert untouched[np.isnan(want)].all(), f"{field} is written where it must not be"
        np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])
        assert np.abs(got[finite] - want[finite]).max(initial=0.0) <= tolerance, field


def test_there_are_cases_of_both_kinds() -> None:
    assert sum(case.status == 0 for case in CASES) >= 10
    assert sum(case.status != 0 for case in CASES) >= 3
