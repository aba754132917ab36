# SPDX-License-Identifier: Apache-2.0
"""The table of a comparison says what the result says, and goes where a page has a place for it.

  table_test.py PATH/bench/cpu_peers/table.py
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TABLE = None


def run_of(name, rate):
    return {"name": name, "rate": rate}


def ratio(median):
    return {"median": median, "lower_quartile": median - 0.01, "upper_quartile": median + 0.01}


def case(kind, dtype, ours, peer, to_peer, to_limit):
    limit = "read" if kind == "decode" else "sgemm"
    return {"kind": kind, "dtype": dtype, "case": f"{dtype} {kind}", "runs": [run_of("ours", ours), run_of("torch", peer)],
            "limits": [run_of(limit, 1e11)], "limit": limit, "to_best_peer": ratio(to_peer), "to_limit": ratio(to_limit)}


RESULT = {
    "device_name": "a processor", "threads": 2, "rounds": 9, "date": "2026-01-01", "load_before": 0.1, "load_after": 2.0,
    "contestants": {"ours": {"kernel": "fwd_cpu_avx2"}},
    "cases": [case("prefill", "f32", 9e10, 6e10, 1.5, 0.9), case("prefill", "f32", 8e10, 8e10, 0.96, 0.8),
              case("decode", "bf16", 2e10, 1e10, 2.0, 0.7)],
}


class TableTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name)
        self.result = self.directory / "result.json"
        self.result.write_text(json.dumps(RESULT), encoding="utf-8")

    def table(self, *pages, code=0):
        done = subprocess.run([sys.executable, TABLE, self.result, *pages], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_a_row_has_the_rates_and_both_ratios(self):
        lines = self.table().splitlines()
        self.assertEqual(lines[2], "| f32 prefill, GFLOP/s | 90.0 | 60.0 | 1.50 (1.49 to 1.51) | 100.0 | 90% (89% to 91%) |")
        self.assertIn("| bf16 decode, GB/s | 20.0 | 10.0 |", lines[4])
        self.assertEqual({line.count("|") for line in lines[:5]}, {7})

    def test_means_are_geometric_and_name_the_lowest(self):
        text = self.table()
        self.assertIn("f32 prefill 1.20 (lowest 0.96), bf16 decode 2.00 (lowest 2.00)", text)
        self.assertIn("load 0.1 before and 2.0 after", text)

    def test_it_takes_the_place_in_a_page_and_nothing_else(self):
        page = self.directory / "page.md"
        page.write_text("above\n<!-- cpu_peers -->\nold\n<!-- /cpu_peers -->\nbelow\n", encoding="utf-8")
        for _ in range(2):  # again over itself
            self.table(page)
            text = page.read_text(encoding="utf-8")
            self.assertTrue(text.startswith("above\n<!-- cpu_peers -->\n| "))
            self.assertTrue(text.endswith("\n<!-- /cpu_peers -->\nbelow\n"))
            self.assertNotIn("old", text)
            self.assertEqual(text.count("f32 prefill 1.20"), 1)
        page.write_text("no place", encoding="utf-8")
        self.assertIn("has 0 places", self.table(page, code=1))
        self.assertEqual(page.read_text(encoding="utf-8"), "no place")


if __name__ == "__main__":
    TABLE = sys.argv[1]
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=1)
