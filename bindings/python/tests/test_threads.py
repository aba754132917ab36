# SPDX-License-Identifier: Apache-2.0
"""Many Python threads at once, and a child process."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np

import flashattn


def test_threads_share_prepared_calls(rng: np.random.Generator) -> None:
    inputs = [(rng.standard_normal((1, 33, 4, 16)) + i).astype("f4") for i in range(8)]
    want = [flashattn.attention(x, x, x, causal=True) for x in inputs]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(200):
            if not np.array_equal(flashattn.attention(inputs[i], inputs[i], inputs[i], causal=True), want[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_error_texts_belong_to_their_thread() -> None:
    x = np.ones((1, 2, 2, 8), "f4")
    texts: dict[int, set[str]] = {}

    def work(i: int) -> None:
        for _ in range(200):
            try:
                flashattn.attention(x, x, x, softcap=-1.0 - i)
            except ValueError as error:
                texts.setdefault(i, set()).add(str(error))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(4):
        (text,) = texts[i]
        assert f"softcap is {-1 - i}" in text


FORK = """
import os
import numpy as np
import flashattn

x = np.random.default_rng().standard_normal((1, 64, 4, 32)).astype("f4")
want = flashattn.attention(x, x, x)
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(flashattn.attention(x, x, x), want) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert np.array_equal(flashattn.attention(x, x, x), want)
"""


def test_a_forked_child_opens_a_handle_of_its_own() -> None:
    # In a process of its own: other frameworks that tests have loaded do not survive a fork.
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=120)
