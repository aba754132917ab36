# SPDX-License-Identifier: Apache-2.0
"""Follows the links of the documents to files, and looks for every file and directory that they name as `path/in/tree`.

  links.py SOURCE_DIRECTORY PAGE...
"""

import pathlib
import re
import sys

TOP = ("include", "src", "backends", "tests", "bindings", "bench", "examples", "docs", "tools", "cmake", ".ci")


def main():
    source = pathlib.Path(sys.argv[1])
    faults = []
    for page in map(pathlib.Path, sys.argv[2:]):
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if "://" not in target and not (page.parent / target).exists():
                faults.append(f"{page.name} links to {target}")
        for name in re.findall(r"`([\w.-]+/[\w./-]*)`", text):
            if name.split("/")[0] in TOP and not (source / name).exists():
                faults.append(f"{page.name} names {name}")
    print("\n".join(faults) or "every file that the documents name is there")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
