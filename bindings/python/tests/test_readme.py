# SPDX-License-Identifier: Apache-2.0
"""The README's examples do what their comments say."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

BLOCKS = re.findall(r"```python\n(.*?)```", (Path(__file__).resolve().parents[1] / "README.md").read_text(), re.DOTALL)


def test_the_ten_lines_and_the_error() -> None:
    ten, error = BLOCKS[:2]
    assert len(ten.strip().splitlines()) <= 10
    output = io.StringIO()
    scope: dict[str, object] = {}
    with contextlib.redirect_stdout(output):
        exec(ten, scope)
        exec(error, scope)
    lines = output.getvalue().splitlines()
    assert lines[0] == re.search(r"print\(o.shape, lse.shape\)\s+# (.*)", ten).group(1)  # type: ignore[union-attr]
    assert "Device(backend='cpu'" in lines[1]
    assert lines[2] == re.search(r"print\(error\)\s+# (.*)", error).group(1)  # type: ignore[union-attr]
