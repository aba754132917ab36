# SPDX-License-Identifier: Apache-2.0
"""Holds docs/online-softmax.md to the sources: each row of its tables names a line of code and a test that exist.

  formulas.py SOURCE_DIRECTORY

A row is | formula | `file`: `line` | `test` |. The line must be in that file, and a TEST_CASE of that name in tests/.
Line breaks count as spaces, so that the formatter may move them.
"""

import pathlib
import re
import sys

ROW = re.compile(r"^\| (.+) \| `([\w./]+)`: `(.+)` \| `(.+)` \|$", re.M)
CASE = re.compile(r'TEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)')


def squeeze(text):
    return " ".join(text.split())


def test_names(source):
    names = set()
    for path in (source / "tests").rglob("*.cpp"):
        for match in CASE.finditer(path.read_text(encoding="utf-8")):
            names.add("".join(re.findall(r'"((?:[^"\\]|\\.)*)"', match.group(1))))
    return names


def main():
    source = pathlib.Path(sys.argv[1])
    page = (source / "docs/online-softmax.md").read_text(encoding="utf-8")
    names = test_names(source)
    rows = ROW.findall(page)
    faults = []
    for formula, name, line, test in rows:
        path = source / name
        if not path.exists():
            faults.append(f"{formula}: there is no {name}")
        elif squeeze(line) not in squeeze(path.read_text(encoding="utf-8")):
            faults.append(f"{formula}: {name} has no line {line}")
        if test not in names:
            faults.append(f"{formula}: there is no test {test!r}")
    # A row that the pattern misses would go unchecked.
    tables = sum(line.startswith("| ") and not line.startswith("| formula |") for line in page.splitlines())
    if len(rows) != tables:
        faults.append(f"{tables - len(rows)} rows are not | formula | `file`: `line` | `test` |")
    formulas = set(re.findall(r" \((\d+)\)$", page, re.M))
    tied = set(re.findall(r"\((\d+)\)", " ".join(row[0] for row in rows)))
    print("\n".join(faults) or f"{len(rows)} lines and their tests are there; formulas {', '.join(sorted(formulas, key=int))}")
    # (1) to (3) are the definition, its shift and what a state is; every later formula is a line of code.
    missing = {number for number in formulas if int(number) > 3} - tied
    if missing:
        print(f"no line for formula {', '.join(sorted(missing))}")
    sys.exit(bool(faults or missing or not rows))


if __name__ == "__main__":
    main()
