# SPDX-License-Identifier: Apache-2.0
"""gcn_run on a compiled kernel: the result in the file, the texts of a wrong call and of a trap."""
import array
import os
import subprocess
import sys
import tempfile

tool, image = sys.argv[1:]


def call(*words):
    return subprocess.run([tool, *words], capture_output=True, text=True)


with tempfile.TemporaryDirectory() as folder:
    source, result = os.path.join(folder, "in"), os.path.join(folder, "out")
    with open(source, "wb") as file:
        array.array("f", range(512)).tofile(file)

    done = call("--grid", "2", "--block", "256", "--quantum", "5", "--counts", image, "scale_rows",
                "in:" + source, f"out:{result}:2048", "f32:2")
    assert done.returncode == 0, done.stderr
    assert "s_barrier" in done.stdout, done.stdout
    with open(result, "rb") as file:
        values = array.array("f", file.read())
    assert list(values) == [2.0 * (row * 256 + 255 - i) for row in range(2) for i in range(256)]

    short = call("--grid", "3", "--block", "256", image, "scale_rows", "in:" + source, f"out:{result}:2048", "f32:2")
    assert short.returncode == 2 and "out of bounds" in short.stderr, short.stderr

    few = call(image, "scale_rows", "f32:2")
    assert few.returncode == 1 and "takes 3 arguments, not 1" in few.stderr, few.stderr

    other = call(image, "other")
    assert other.returncode == 1 and "scale_rows" in other.stderr, other.stderr

    listed = call("--list", image)
    assert "scale_rows: " in listed.stdout and "1024 bytes of LDS" in listed.stdout, listed.stdout
