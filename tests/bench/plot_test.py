# SPDX-License-Identifier: Apache-2.0
"""Draws what the tool measured and looks into the pictures.

  plot_test.py PATH/flashattn PATH/bench/plot/plot.py
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

TOOL = PLOT = PYTHON = None
SVG = "{http://www.w3.org/2000/svg}"

PEERS = {
    "command": "cpu_peers", "device_name": "a processor", "threads": 2,
    "cases": [
        {"kind": "prefill", "case": "f32 1k", "runs": [{"name": "ours", "rate": 9e10}, {"name": "theirs", "rate": 7e10}]},
        {"kind": "decode", "case": "f32 32k", "runs": [{"name": "ours", "rate": 2e10}]},
    ],
}


class PlotTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name)

    def draw(self, result, name="picture"):
        """The picture's texts, after it has been drawn twice alike."""
        source = self.directory / "result.json"
        source.write_text(json.dumps(result), encoding="utf-8")
        pictures = [self.directory / f"{name}{i}.svg" for i in range(2)]
        for picture in pictures:
            subprocess.run([PYTHON, PLOT, source, picture], check=True, timeout=300)
        self.assertEqual(pictures[0].read_bytes(), pictures[1].read_bytes())
        root = ElementTree.parse(pictures[0]).getroot()
        return {"".join(text.itertext()).strip() for text in root.iter(f"{SVG}text")}, root

    def measure(self, *arguments):
        done = subprocess.run([TOOL, *map(str, arguments), "--json"], stdout=subprocess.PIPE, check=True, timeout=300)
        return json.loads(done.stdout)

    def test_ladder(self):
        result = self.measure("ladder", "--seqlen", "64,128,256", "--head-dim", 16, "--seconds", 0, "--memory", 0.3)
        texts, root = self.draw(result)
        self.assertLessEqual({"naive", "blocked", "fused", "flash", "library", "O itself", "64", "128", "256"}, texts)
        self.assertTrue(any("D = 16, causal" in text for text in texts))
        # A marker for each point: at n = 256 naive and blocked were refused, so they have one less in the first panel.
        markers = sum(1 for use in root.iter(f"{SVG}use") if use.get("style", "").startswith("fill"))
        self.assertGreaterEqual(markers, 5 * 3 * 2 - 2)

    def test_bench(self):
        result = self.measure("bench", "--backend", "cpu", "--seqlen", "64,128", "--head-dim", 16, "--heads", 1, "--seconds", 0)
        texts, _ = self.draw(result)
        self.assertLessEqual({"GFLOP/s", "keys", "D = 16, full", "D = 16, causal"}, texts)
        for row in result["rows"]:
            self.assertIn(f"{row['dtype']}, {row['kernel']}, {row['threads']} threads", texts)

    def test_peers(self):
        texts, _ = self.draw(PEERS)
        self.assertLessEqual({"ours", "theirs", "f32 1k", "f32 32k", "GFLOP/s", "GB/s"}, texts)

    def test_other_files_are_refused(self):
        source = self.directory / "other.json"
        source.write_text('{"command": "sing"}', encoding="utf-8")
        done = subprocess.run([PYTHON, PLOT, source, self.directory / "no.svg"], stderr=subprocess.PIPE, text=True,
                              timeout=300, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("'sing'", done.stderr)
        self.assertFalse((self.directory / "no.svg").exists())


def with_matplotlib():
    """This interpreter, or the system's, which is the one that Debian's package is for."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import matplotlib"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return python
    return None


if __name__ == "__main__":
    TOOL, PLOT = sys.argv[1:3]
    PYTHON = with_matplotlib()
    if PYTHON is None:
        print("matplotlib is not installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=1)
