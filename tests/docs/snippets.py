# SPDX-License-Identifier: Apache-2.0
"""Runs the code blocks of the documents that a line `<!-- test: run -->` stands before.

  snippets.py SOURCE_DIRECTORY BUILD_DIRECTORY CC PAGE...

A ```c block is a whole program: it is compiled with every warning an error, linked with the shared library, and must
exit with 0. A ```sh block runs with `set -e` in an empty directory where the sources' own names (build/release, tests,
tools) lead to the build and the sources. A block `<!-- test: output -->` before a ```text block is what the last program
printed, line by line; `...` stands for anything.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^<!-- test: (\w+) -->\n+```(\w+)\n(.*?)^```$", re.M | re.S)


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
                          check=False, **options)
    return done.returncode, done.stdout


def run_c(code, source, build, compiler, directory):
    program = directory / "snippet"
    (directory / "snippet.c").write_text(code, encoding="utf-8")
    status, output = run([compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{source}/include",
                          str(directory / "snippet.c"), "-o", str(program), f"-L{build}", f"-Wl,-rpath,{build}",
                          "-lflashattn"])
    return (status, output) if status else run([str(program)], cwd=directory)


def run_sh(code, source, build, directory):
    (directory / "build").mkdir(exist_ok=True)
    for link, target in (("build/release", build), ("tests", f"{source}/tests"), ("tools", f"{source}/tools"),
                         ("include", f"{source}/include")):
        if not (directory / link).exists():
            os.symlink(target, directory / link)
    return run(["bash", "-e", "-c", code], cwd=directory)


def matches(wanted, printed):
    pattern = "".join(".*" if part == "..." else re.escape(part) for part in re.split(r"(\.\.\.)", wanted.strip()))
    return re.fullmatch(pattern, printed.strip(), flags=re.S) is not None


def main():
    source, build, compiler, *pages = sys.argv[1:]
    count = failures = 0
    for page in map(pathlib.Path, pages):
        text = page.read_text(encoding="utf-8")
        printed = None
        if text.count("<!-- test:") != len(BLOCK.findall(text)):
            print(f"{page.name}: a mark without a block")
            failures += 1
        with tempfile.TemporaryDirectory() as scratch:
            directory = pathlib.Path(scratch)
            for match in BLOCK.finditer(text):
                kind, language, code = match.groups()
                line = text.count("\n", 0, match.start()) + 1
                count += 1
                if kind == "output":
                    good = printed is not None and matches(code, printed)
                else:
                    status, printed = (run_c(code, source, build, compiler, directory) if language == "c" else
                                       run_sh(code, source, build, directory))
                    good = status == 0
                print(f"{'ok    ' if good else 'FAILED'} {page.name}:{line} {language}")
                if not good:
                    print(printed)
                    failures += 1
    print(f"{count} blocks, {failures} failures")
    sys.exit(failures != 0 or count == 0)


if __name__ == "__main__":
    main()
