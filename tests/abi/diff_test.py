# SPDX-License-Identifier: Apache-2.0
"""Compares the header's types and functions with the committed baseline, and shows that the comparison notices.

  diff_test.py HEADER BASELINE SUPPRESSIONS VERSION_SCRIPT ABIDIFF CC
"""

import pathlib
import re
import subprocess
import sys
import tempfile

# What is planted: name, pattern in the header, replacement, whether it must be reported.
PLANTED = [
    ("nothing", r"$^", "", False),
    ("a field inserted", r"(?m)^  int32_t head_dim;", "  int64_t inserted;\n  int32_t head_dim;", True),
    ("a field removed", r"(?m)^  int32_t causal;.*$", "", True),
    ("a field widened", r"(?m)^  int32_t num_splits; ", "  int64_t num_splits; ", True),
    ("a field appended to a sized struct", r"(?m)^} flashattn_call_t;", "  int64_t appended;\n} flashattn_call_t;", False),
    ("a parameter widened", r"flashattn_backend_info\(int32_t index", "flashattn_backend_info(int64_t index", True),
    ("a result widened", r"int32_t FLASHATTN_CALL flashattn_backend_count", "int64_t FLASHATTN_CALL flashattn_backend_count",
     True),
    ("a function removed", r"(?s)FLASHATTN_API void FLASHATTN_CALL flashattn_call_init\(.*?;", "", True),
    ("a function added", r"(?m)^FLASHATTN_API uint32_t FLASHATTN_CALL flashattn_version",
     "FLASHATTN_API void FLASHATTN_CALL flashattn_added(void);\n\\g<0>", False),
]


def main():
    header, baseline, suppressions, version_script, abidiff, compiler = sys.argv[1:]
    generate = pathlib.Path(__file__).with_name("generate.py")
    text = pathlib.Path(header).read_text(encoding="utf-8")
    failures = 0
    for name, pattern, replacement, breaks in PLANTED:
        with tempfile.TemporaryDirectory() as scratch:
            scratch = pathlib.Path(scratch)
            changed, count = re.subn(pattern, replacement, text)
            if count == 0 and name != "nothing":
                print(f"{name}: the header has no such place any more")
                failures += 1
                continue
            (scratch / "flashattn.h").write_text(changed, encoding="utf-8")
            code = subprocess.run([sys.executable, "-B", generate, scratch / "flashattn.h", "stub"], check=True,
                                  stdout=subprocess.PIPE).stdout
            (scratch / "stub.c").write_bytes(code)
            library = scratch / "libflashattn.so"
            subprocess.run([compiler, "-g", "-shared", "-fPIC", f"-I{scratch}", scratch / "stub.c", "-o", library,
                            "-Wl,-soname,libflashattn.so.0", f"-Wl,--version-script={version_script}"], check=True)
            done = subprocess.run([abidiff, "--exported-interfaces-only", "--no-added-syms", "--suppressions",
                                   suppressions, baseline, library], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, check=False)
        # abidiff's status is a set of bits; 4: the ABI changed, 8: incompatibly, 1 and 2: it could not compare.
        good = (done.returncode & 3) == 0 and (done.returncode != 0) == breaks
        print(f"{'ok    ' if good else 'FAILED'} {name}: status {done.returncode}")
        if not good:
            print(done.stdout)
            failures += 1
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
