# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests: the repository, fresh inputs, and a look at what reaches the library."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flashattn
from flashattn import _library

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Fresh inputs in every run; FLASHATTN_TEST_SEED repeats one. The seed is printed when a test fails."""
    seed = int(os.environ.get("FLASHATTN_TEST_SEED") or np.random.SeedSequence().entropy % 2**32)
    print(f"FLASHATTN_TEST_SEED={seed}")
    return np.random.default_rng(seed)


class Seen:
    """The last problem and call that were passed to ``flashattn_attention``."""

    problem: Any
    call: Any
    stream: int
    count = 0


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Watches the calls of the default library, which still makes them."""
    library = _library.default()
    real = library.attention
    record = Seen()

    def spy(handle: int, problem: Any, call: Any, stream: int) -> int:
        record.problem = type(problem._obj).from_buffer_copy(problem._obj)
        record.call = type(call._obj).from_buffer_copy(call._obj)
        record.stream = stream
        record.count += 1
        return real(handle, problem, call, stream)

    monkeypatch.setattr(library, "attention", spy)
    return record


@pytest.fixture(scope="session", autouse=True)
def say_which_library() -> None:
    print(flashattn.load())
