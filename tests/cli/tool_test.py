# SPDX-License-Identifier: Apache-2.0
"""The flashattn tool from outside: exit codes, messages, files. Standard library only.

    tool_test.py PATH/flashattn PATH/tests/data/smollm2
"""

import hashlib
import json
import math
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

TOOL = DATA = None
SIZES = {"F32": 4, "F16": 2, "BF16": 2, "U8": 1}


# ------------------------------------------------------------------------------------------------ files --


def encode(dtype, values):
    if dtype == "F32":
        return struct.pack(f"<{len(values)}f", *values)
    if dtype == "F16":
        return struct.pack(f"<{len(values)}e", *values)
    if dtype == "U8":
        return bytes(int(v) for v in values)
    words = struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))
    return struct.pack(f"<{len(values)}H", *((w + 0x7FFF + (w >> 16 & 1)) >> 16 for w in words))


def decode(dtype, data):
    if dtype == "F32":
        return list(struct.unpack(f"<{len(data) // 4}f", data))
    if dtype == "F16":
        return list(struct.unpack(f"<{len(data) // 2}e", data))
    words = struct.unpack(f"<{len(data) // 2}H", data)
    return list(struct.unpack(f"<{len(words)}f", struct.pack(f"<{len(words)}I", *(w << 16 for w in words))))


class Tensor:
    """Values as the element type holds them, flat."""

    def __init__(self, dtype, shape, values):
        self.dtype, self.shape, self.data = dtype, list(shape), encode(dtype, values)
        assert len(self.data) == SIZES[dtype] * math.prod(shape)
        self.values = list(self.data) if dtype == "U8" else decode(dtype, self.data)


def random_tensor(dtype, *shape):
    values = [random.gauss(0.3, 1) for _ in range(math.prod(shape))]
    return Tensor(dtype, shape, [v > 0 for v in values] if dtype == "U8" else values)


def write_npy(path, tensor):
    descr = {"F32": "<f4", "F16": "<f2", "U8": "|u1"}[tensor.dtype]
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(tensor.shape)}, }}\n".encode()
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + tensor.data)


def read_npy(path):
    data = path.read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00" and (10 + struct.unpack("<H", data[8:10])[0]) % 64 == 0
    end = 10 + struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:end], {})  # what NumPy's own reader does, by ast.literal_eval
    assert header["fortran_order"] is False and data[end - 1 : end] == b"\n"
    dtype = {"<f4": "F32", "<f2": "F16"}[header["descr"]]
    return Tensor(dtype, header["shape"], decode(dtype, data[end:]))


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        begin = len(data)
        data += tensor.data
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    data = path.read_bytes()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:end]).items():
        begin, stop = (end + offset for offset in entry["data_offsets"])
        tensors[name] = Tensor(entry["dtype"], entry["shape"], decode(entry["dtype"], data[begin:stop]))
    return tensors


# ----------------------------------------------------------------------------------------------- oracle --


def attention(q, k, v, bshd=True, causal=False, window=None, scale=None, softcap=0, diag=0, alibi=None, sinks=None,
              bias=None):
    """By the definition, in Python floats. Returns O in Q's order and LSE [batch, heads, n_q], both flat."""

    def sizes(t):
        shape = t.shape if len(t.shape) == 4 else [1] + t.shape
        return (shape[0], shape[1], shape[2], shape[3]) if bshd else (shape[0], shape[2], shape[1], shape[3])

    def row(t, b, s, h):
        _, seqlen, heads, dim = sizes(t)
        begin = (((b * seqlen + s) * heads + h) if bshd else ((b * heads + h) * seqlen + s)) * dim
        return t.values[begin : begin + dim]

    batch, n_q, heads, dim = sizes(q)
    _, n_k, heads_kv, _ = sizes(k)
    dim_v = v.shape[-1]
    scale = scale or 1 / math.sqrt(dim)
    o, lse = [0.0] * (batch * n_q * heads * dim_v), []
    for b in range(batch):
        for h in range(heads):
            kv = h // (heads // heads_kv)
            for i in range(n_q):
                diagonal = i + n_k - n_q + diag
                scores = {}
                for j in range(n_k):
                    if causal and j > diagonal:
                        continue
                    if window and window[0] >= 0 and j < diagonal - window[0]:
                        continue
                    if window and window[1] >= 0 and j > diagonal + window[1]:
                        continue
                    score = scale * sum(x * y for x, y in zip(row(q, b, i, h), row(k, b, j, kv)))
                    if softcap:
                        score = softcap * math.tanh(score / softcap)
                    if alibi:
                        score -= alibi.values[h if len(alibi.shape) == 1 else b * heads + h] * abs(diagonal - j)
                    if bias:
                        value = bias.values[(h * n_q + i) * n_k + j if len(bias.shape) == 3 else i * n_k + j]
                        if bias.dtype == "U8":
                            if not value:
                                continue
                        else:
                            score += value
                    scores[j] = score
                logits = list(scores.values())
                if sinks:
                    logits.append(sinks.values[h if len(sinks.shape) == 1 else b * heads + h])
                if not logits:
                    lse.append(-math.inf)
                    continue
                top = max(logits)
                lse.append(top + math.log(sum(math.exp(x - top) for x in logits)))
                begin = (((b * n_q + i) * heads + h) if bshd else ((b * heads + h) * n_q + i)) * dim_v
                for j, score in scores.items():
                    p = math.exp(score - lse[-1])
                    for d, x in enumerate(row(v, b, j, kv)):
                        o[begin + d] += p * x
    return o, lse


# ------------------------------------------------------------------------------------------------ tests --


class ToolTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="flashattn."))
        self.addCleanup(shutil.rmtree, self.directory)

    def path(self, name):
        return self.directory / name

    def tool(self, *arguments, code=0, **options):
        done = subprocess.run([TOOL, *map(str, arguments)], stdout=options.pop("stdout", subprocess.PIPE),
                              stderr=subprocess.PIPE, text=True, timeout=300, **options)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout} {done.stderr}")
        return done

    def refused(self, message, *arguments, code=2):
        """The tool ends with the code, says the message, prints no result and writes no file."""
        before = sorted(self.directory.iterdir())
        done = self.tool(*arguments, code=code)
        self.assertIn(message, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(sorted(self.directory.iterdir()), before)

    def assert_close(self, got, wanted, tolerance):
        self.assertEqual(len(got), len(wanted))
        for index, (x, y) in enumerate(zip(got, wanted)):
            if x != y:
                self.assertLessEqual(abs(x - y), tolerance * max(1, abs(y)), f"element {index}: {x} is not {y}")

    def qkv(self, *dtypes, q=(7, 4, 16), k=(11, 2, 16), v=(11, 2, 12)):
        tensors = {n: random_tensor(d, *s) for n, d, s in zip("qkv", dtypes, (q, k, v))}
        write_safetensors(self.path("qkv.safetensors"), tensors)
        return tensors

    # -- info

    def test_info_names_every_backend_and_kernel(self):
        report = json.loads(self.tool("info", "--json").stdout)
        text = self.tool("info").stdout
        self.assertIn(report["version"], text)
        self.assertEqual({b["name"] for b in report["backends"]}, {"cpu", "cuda", "hip"})
        for backend in report["backends"]:
            self.assertIn(backend["name"], text)
            self.assertEqual(backend["status"] == 0, bool(backend["devices"]))
            self.assertEqual(backend["status"] == 0, backend["reason"] == "")
            self.assertIn(backend["reason"], text)
            for kernel in backend["kernels"]:
                self.assertIn(kernel["name"], text)
                self.assertEqual(kernel["available"], kernel["reason"] == "")
        cpu = next(b for b in report["backends"] if b["name"] == "cpu")
        self.assertEqual(cpu["status"], 0)
        self.assertTrue(any(kernel["available"] for kernel in cpu["kernels"]))

    def test_version_and_help(self):
        version = json.loads(self.tool("info", "--json").stdout)["version"]
        self.assertEqual(self.tool("--version").stdout.strip(), version)
        self.assertIn("Exit codes", self.tool("--help").stdout)
        for command in ("info", "run", "demo"):
            self.assertIn("Example", self.tool(command, "--help").stdout)

    # -- run: results

    def run_npy(self, tensors, *arguments):
        command = ["run", "--backend", "cpu", "--out", self.path("o.npy"), "--lse", self.path("lse.npy")]
        for name, tensor in tensors.items():
            write_npy(self.path(name + ".npy"), tensor)
            command += ["--" + name, self.path(name + ".npy")]
        self.tool(*command, *arguments)
        return read_npy(self.path("o.npy")), read_npy(self.path("lse.npy"))

    def test_every_feature_of_run_on_float32(self):
        q, k, v = (random_tensor("F32", *s) for s in ((7, 4, 16), (11, 2, 16), (11, 2, 12)))
        per_head, bias, mask = random_tensor("F32", 4), random_tensor("F32", 4, 7, 11), random_tensor("U8", 7, 11)
        for extra, arguments, keywords in (
            ({}, [], {}),
            ({}, ["--causal"], {"causal": True}),
            ({}, ["--causal", "--diag-offset", "-6"], {"causal": True, "diag": -6}),
            ({}, ["--window", "2,1"], {"window": (2, 1)}),
            ({}, ["--window", "-1,0"], {"window": (-1, 0)}),
            ({}, ["--window=-1,-1"], {}),
            ({}, ["--scale", "0.7"], {"scale": struct.unpack("<f", struct.pack("<f", 0.7))[0]}),
            ({}, ["--softcap", "1.5"], {"softcap": 1.5}),
            ({}, ["--num-splits", "2", "--threads", "2"], {}),
            ({}, ["--batch-invariant"], {}),
            ({"alibi": per_head}, [], {"alibi": per_head}),
            ({"sinks": per_head}, ["--causal"], {"sinks": per_head, "causal": True}),
            ({"bias": bias}, [], {"bias": bias}),
            ({"bias": mask}, [], {"bias": mask}),
        ):
            with self.subTest(arguments=arguments, extra=list(extra)):
                o, lse = self.run_npy({"q": q, "k": k, "v": v, **extra}, *arguments)
                wanted_o, wanted_lse = attention(q, k, v, **keywords)
                self.assertEqual((o.dtype, o.shape), ("F32", [7, 4, 12]))
                self.assertEqual((lse.dtype, lse.shape), ("F32", [4, 7]))
                self.assert_close(o.values, wanted_o, 1e-5)
                self.assert_close(lse.values, wanted_lse, 1e-5)

    def test_every_element_type_through_safetensors(self):
        for dtypes in (("F32",) * 3, ("F16",) * 3, ("BF16",) * 3, ("F32", "F16", "F16")):
            for dtype_o in ("f32", "f16", "bf16", None):
                with self.subTest(dtypes=dtypes, dtype_o=dtype_o):
                    tensors = self.qkv(*dtypes)
                    out = self.path("o.safetensors")
                    self.tool("run", "--backend", "cpu", "-i", self.path("qkv.safetensors"), "-o", out, "--lse", out,
                              *(["--dtype-o", dtype_o] if dtype_o else []))
                    got = read_safetensors(out)
                    o, lse = attention(tensors["q"], tensors["k"], tensors["v"])
                    self.assertEqual(set(got), {"o", "lse"})
                    self.assertEqual(got["o"].dtype, dtype_o.upper() if dtype_o else dtypes[0])
                    tolerance = {"F32": 1e-5, "F16": 2e-3, "BF16": 2e-2}
                    self.assert_close(got["o"].values, o, max(tolerance[got["o"].dtype], tolerance[dtypes[2]]))
                    self.assert_close(got["lse"].values, lse, 1e-5)

    def test_layouts_and_batches(self):
        for shapes, bshd in ((((2, 7, 4, 16), (2, 11, 2, 16), (2, 11, 2, 12)), True),
                             (((2, 4, 7, 16), (2, 2, 11, 16), (2, 2, 11, 12)), False),
                             (((4, 7, 16), (2, 11, 16), (2, 11, 12)), False)):
            with self.subTest(shapes=shapes, bshd=bshd):
                tensors = dict(zip("qkv", (random_tensor("F32", *shape) for shape in shapes)))
                o, lse = self.run_npy(tensors, "--layout", "bshd" if bshd else "bhsd", "--causal")
                wanted_o, wanted_lse = attention(*tensors.values(), bshd=bshd, causal=True)
                self.assertEqual(o.shape, list(shapes[0][:-1]) + [12])
                self.assertEqual(lse.shape, ([2] if len(shapes[0]) == 4 else []) + [4, 7])
                self.assert_close(o.values, wanted_o, 1e-5)
                self.assert_close(lse.values, wanted_lse, 1e-5)

    def test_empty_tensors(self):
        rows = [random_tensor("F32", 3, heads, 8) for heads in (4, 2, 2)]
        none = [random_tensor("F32", 0, heads, 8) for heads in (4, 2, 2)]
        self.assertEqual(self.run_npy({"q": none[0], "k": rows[1], "v": rows[2]})[0].shape, [0, 4, 8])
        o, lse = self.run_npy({"q": rows[0], "k": none[1], "v": none[2]})
        self.assertEqual(set(o.values), {0.0})
        self.assertEqual(set(lse.values), {-math.inf})

    def test_tensor_names(self):
        tensors = self.qkv("F32", "F32", "F32")
        renamed = self.path("renamed.safetensors")
        write_safetensors(renamed, {"query": tensors["q"], "key": tensors["k"], "value": tensors["v"]})
        self.tool("run", "-i", renamed, "--q-name", "query", "--k-name", "key", "--v-name", "value", "--check")
        self.refused("has no tensor 'q'; it has 'query', 'key', 'value'", "run", "-i", renamed, "--check")

    def test_every_available_kernel_by_name(self):
        self.qkv("F32", "F32", "F32")
        cpu = next(b for b in json.loads(self.tool("info", "--json").stdout)["backends"] if b["name"] == "cpu")
        for kernel in cpu["kernels"]:
            if kernel["available"]:
                with self.subTest(kernel=kernel["name"]):
                    done = self.tool("run", "-i", self.path("qkv.safetensors"), "--backend", "cpu", "--kernel",
                                     kernel["name"], "--check", "--json")
                    self.assertEqual(json.loads(done.stdout)["kernel"], kernel["name"])
        self.refused("no_such_kernel", "run", "-i", self.path("qkv.safetensors"), "--backend", "cpu", "--kernel",
                     "no_such_kernel", "--check", code=1)

    def test_check_and_time_report(self):
        self.qkv("F16", "F16", "F16")
        run = ["run", "-i", self.path("qkv.safetensors"), "--backend", "cpu", "--check"]
        report = json.loads(self.tool(*run, "--time", "--json").stdout)
        self.assertTrue(report["check"]["ok"])
        self.assertGreater(report["check"]["o_error"], 0)
        self.assertGreater(report["time"]["library_seconds"], 0)
        self.assertGreater(report["time"]["materialized_seconds"], 0)
        self.assertGreaterEqual(report["time"]["samples"], 14)
        self.assertEqual(report["materialized_bytes"], 2 * 4 * 7 * 11 * 4)
        text = self.tool(*run).stdout
        self.assertIn("within the accuracy contract", text)
        self.assertIn(report["kernel"], text)

    def test_nan_inputs_are_no_error(self):
        q, k, v = (random_tensor("F32", *s) for s in ((3, 1, 8), (5, 1, 8), (5, 1, 8)))
        k = Tensor("F32", k.shape, k.values[:-1] + [math.nan])
        o, lse = self.run_npy({"q": q, "k": k, "v": v}, "--causal", "--check")
        self.assertFalse(any(map(math.isnan, o.values[:16])))
        self.assertTrue(all(map(math.isnan, o.values[16:])))
        self.assertEqual(list(map(math.isnan, lse.values)), [False, False, True])

    # -- run: what is refused

    def test_wrong_usage(self):
        self.qkv("F32", "F32", "F32")
        good = ["run", "-i", self.path("qkv.safetensors")]
        self.refused("a command is needed")
        self.refused("frobnicate", "frobnicate")
        self.refused("nothing to do", *good)
        self.refused("no q: give --q or --input", "run", "--check")
        self.refused("--frob", *good, "--check", "--frob")
        self.refused("--layout", *good, "--check", "--layout", "sbhd")
        self.refused("--backend", *good, "--check", "--backend", "tpu")
        self.refused("--window", *good, "--check", "--window", "1,2,3")
        self.refused("--threads", *good, "--check", "--threads", "99999999999999999999")
        self.refused("--softcap", *good, "--check", "--softcap", "much")
        self.refused("softcap", *good, "--check", "--softcap", "-1")
        for zero in ("0", "1e-46"):
            self.refused(f"--scale: is {zero}, which is 0 in f32", *good, "--check", "--scale", zero)
            self.refused(f"--softcap: is {zero}, which is 0 in f32", *good, "--check", "--softcap", zero)
        self.refused("softmax_scale", *good, "--check", "--scale", "inf")
        self.refused("window_left", *good, "--check", "--window", "-2,0")
        self.refused("num_splits", *good, "--check", "--num-splits", "257")
        self.refused("num_splits", *good, "--check", "--num-splits", "2", "--batch-invariant")
        self.refused("fewer than 64 characters", *good, "--check", "--kernel", "k" * 64)
        self.refused("--backend", "demo", DATA, "--backend", "tpu")
        self.refused("directory is required", "demo")
        self.refused("has no .safetensors file", "demo", pathlib.Path(DATA).parent)

    def test_tensors_that_do_not_fit(self):
        q, k, v = ((7, 4, 16), (11, 2, 16), (11, 2, 12))
        for message, dtypes, shapes in (
            ("q: shape is [7, 4]; it must have 3 dimensions", "F32 F32 F32", ((7, 4), k, v)),
            ("k: batch is 2; it must be Q's, 1", "F32 F32 F32", (q, (2, 11, 2, 16), (2, 11, 2, 12))),
            ("k: head dimension is 8; it must be Q's, 16", "F32 F32 F32", (q, (11, 2, 8), v)),
            ("v: number of heads is 1; it must be K's, 2", "F32 F32 F32", (q, k, (11, 1, 12))),
            ("v: sequence length is 10; it must be K's, 11", "F32 F32 F32", (q, k, (10, 2, 12))),
            ("v: element type is f32; it must be K's, f16", "F32 F16 F32", (q, k, v)),
            ("num_heads_kv", "F32 F32 F32", (q, (11, 3, 16), (11, 3, 12))),
            ("head_dim", "F32 F32 F32", ((7, 4, 0), (11, 2, 0), v)),
            ("num_heads_q", "F32 F32 F32", ((7, 0, 16), k, v)),
            ("dtype_q", "U8 F32 F32", (q, k, v)),
        ):
            with self.subTest(message=message):
                self.qkv(*dtypes.split(), q=shapes[0], k=shapes[1], v=shapes[2])
                self.refused(message, "run", "-i", self.path("qkv.safetensors"), "--backend", "cpu", "--dtype-o", "f32",
                             "-o", self.path("o.npy"))

    def test_extra_tensors_that_do_not_fit(self):
        self.qkv("F32", "F32", "F32")
        for flag, tensor, message in (
            ("--bias", random_tensor("F32", 7, 12), "dimension 1 must be 1 or the key length, 11"),
            ("--bias", random_tensor("F32", 3, 7, 11), "dimension 0 must be 1 or the number of query heads, 4"),
            ("--bias", random_tensor("F32", 11), "it must have 2, 3 or 4 dimensions"),
            ("--alibi", random_tensor("F32", 3), "alibi: shape is [3]; it must be [4] or [1, 4]"),
            ("--sinks", random_tensor("F16", 4), "sinks: element type is f16; it must be f32"),
        ):
            with self.subTest(message=message):
                write_npy(self.path("extra.npy"), tensor)
                self.refused(message, "run", "-i", self.path("qkv.safetensors"), flag, self.path("extra.npy"), "-o",
                             self.path("o.npy"))

    def test_bad_files(self):
        self.qkv("F32", "F32", "F32")
        good = self.path("qkv.safetensors").read_bytes()
        bad = self.path("bad.safetensors")
        for content, message in ((good[:-1], "bytes of data"), (good[:40], "the file has only 32 bytes after it"),
                                 (good + b"x", "bytes of data"), (b"", "file has 0 bytes"),
                                 (b"\xff" * 64, "header length is 18446744073709551615; the format allows 100000000"),
                                 (good.replace(b"F32", b"F99"), "the format has no such type")):
            with self.subTest(message=message):
                bad.write_bytes(content)
                self.refused(f"{bad}: ", "run", "-i", bad, "-o", self.path("o.npy"))
                self.refused(message, "run", "-i", bad, "-o", self.path("o.npy"))
        self.refused("No such file", "run", "-i", self.path("none.safetensors"), "-o", self.path("o.npy"))
        os.mkfifo(self.path("pipe.npy"))
        self.refused("is not a plain file", "run", "--q", self.path("pipe.npy"), "--k", "k.npy", "--v", "v.npy",
                     "--check")
        self.refused("known formats are", "run", "-i", self.path("qkv.bin"), "-o", self.path("o.npy"))

    def test_bad_outputs(self):
        self.qkv("BF16", "BF16", "BF16")
        run = ["run", "-i", self.path("qkv.safetensors")]
        self.refused(".npy has no bf16", *run, "-o", self.path("o.npy"))
        self.refused("known formats are", *run, "-o", self.path("o.txt"))
        self.refused("its directory does not exist", *run, "-o", self.path("no/o.safetensors"))
        self.refused("is an input as well", *run, "-o", self.path("qkv.safetensors"))
        for spelling in self.path("o.npy"), f"{self.directory}/./o.npy":
            self.refused("cannot share a .npy file", *run, "--dtype-o", "f32", "-o", self.path("o.npy"), "--lse",
                         spelling)

    def test_a_full_disk_leaves_no_part_of_a_file(self):
        self.qkv("F32", "F32", "F32", q=(700, 4, 16))
        out = self.path("o.npy")
        out.write_text("before")

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing past the limit is then an error, EFBIG
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

        done = self.tool("run", "-i", self.path("qkv.safetensors"), "-o", out, code=1, preexec_fn=limit)
        self.assertIn("cannot be written", done.stderr)
        self.assertEqual(out.read_text(), "before")
        self.assertEqual(sorted(p.name for p in self.directory.iterdir()), ["o.npy", "qkv.safetensors"])

    def test_standard_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w") as full:
            self.assertIn("standard output", self.tool("info", code=1, stdout=full).stderr)

    def test_a_backend_that_is_not_there_is_a_failure_with_the_reason(self):
        self.qkv("F32", "F32", "F32")
        for backend in json.loads(self.tool("info", "--json").stdout)["backends"]:
            if backend["status"] != 0:
                self.refused(backend["name"], "run", "-i", self.path("qkv.safetensors"), "--backend", backend["name"],
                             "--check", code=1)
        environment = dict(os.environ, FLASHATTN_BACKEND="abacus")
        self.assertIn("abacus", self.tool("run", "-i", self.path("qkv.safetensors"), "--check", code=2,
                                          env=environment).stderr)

    # -- bench

    def test_bench_measures_every_case_of_its_lists(self):
        done = self.tool("bench", "--backend", "cpu", "--threads", "1,2", "--seqlen", "16,48", "--head-dim", 8, "--dtype",
                         "f32,bf16", "--heads", 4, "--heads-kv", 2, "--seconds", 0, "--rounds", 1, "--json", "--progress")
        report = json.loads(done.stdout)
        self.assertEqual(report["backend"], "cpu")
        self.assertEqual({(row["threads"], row["dtype"], row["seqlen_q"], row["causal"]) for row in report["rows"]},
                         {(t, d, s, c) for t in (1, 2) for d in ("f32", "bf16") for s in (16, 48) for c in (False, True)})
        self.assertEqual(len(done.stderr.splitlines()), 16)
        self.assertIn("[16/16] bf16 1x4/2x48x8, causal", done.stderr)
        for row in report["rows"]:
            seconds, pairs = row["seconds"], row["seqlen_q"] ** 2
            pairs = (pairs + row["seqlen_q"]) / 2 if row["causal"] else pairs
            self.assertIn("fwd_cpu_", row["kernel"])
            self.assertGreater(seconds["samples"], 1)
            self.assertTrue(0 < seconds["lower_quartile"] <= seconds["median"] <= seconds["upper_quartile"])
            self.assertAlmostEqual(row["flop_per_second"] * seconds["median"], 2 * 16 * 4 * pairs, delta=1)

    def test_bench_features_reach_the_library_and_the_report(self):
        options = ("bench", "--backend", "cpu", "--seqlen", 32, "--seqlen-q", 8, "--head-dim", 16, "--head-dim-v", 8,
                   "--dtype", "f16", "--dtype-kv", "f32", "--mask", "causal", "--window", "7,0", "--softcap", 5, "--alibi",
                   "--sinks", "--bias", "u8", "--num-splits", 2, "--kernel", "fwd_cpu_scalar", "--seconds", 0)
        row, = json.loads(self.tool(*options, "--json").stdout)["rows"]
        self.assertEqual(row["case"], "f16/f32 1x4x8/32x16/8, causal, window 7,0, softcap, alibi, sinks, bias u8")
        self.assertEqual((row["kernel"], row["num_splits"], row["window"], row["bias"]),
                         ("fwd_cpu_scalar", 2, [7, 0], "u8"))
        text = self.tool(*options).stdout
        for part in ("fwd_cpu_scalar, up to 2 splits", row["case"], "+-", "FLOP/s", "cpu 0: "):
            self.assertIn(part, text)

    def test_bench_says_why_a_case_was_refused_and_goes_on(self):
        options = ("bench", "--backend", "cpu", "--seqlen", 16, "--dtype", "f32", "--mask", "full", "--seconds", 0)
        done = self.tool(*options, "--head-dim", "600,16", "--json")
        refused, row = json.loads(done.stdout)["rows"]
        self.assertIn("head_dim is 600", refused["refused"])
        self.assertGreater(row["seconds"]["median"], 0)
        self.assertIn("no case could be run", self.tool(*options, "--head-dim", 600, code=1).stderr)
        for wrong in (("--seqlen", 0), ("--dtype", "f8"), ("--mask", "some"), ("--threads", -1), ("--rounds", 0),
                      ("--seqlen", 2147483648)):
            self.refused(str(wrong[1]), "bench", *wrong)
        for wrong in ("nan", "inf", "-1"):
            self.refused(f"--seconds: is {wrong}; it must be finite and at least 0", "bench", "--seconds", wrong)

    # -- ladder

    def test_ladder_counts_what_each_rung_stores(self):
        done = self.tool("ladder", "--seqlen", "64,128", "--head-dim", 16, "--threads", 2, "--seconds", 0, "--json",
                         "--progress")
        report = json.loads(done.stdout)
        self.assertEqual(done.stderr.splitlines(), ["[1/2] n = 64", "[2/2] n = 128"])
        self.assertEqual((report["threads"], report["head_dim"], report["causal"]), (2, 16, True))
        small, large = ({step["rung"]: step for step in size["rungs"]} for size in report["sizes"])
        self.assertEqual(list(large), ["naive", "blocked", "fused", "flash", "library"])
        stored = {rung: (small[rung]["intermediate_bytes"], large[rung]["intermediate_bytes"]) for rung in large}
        self.assertEqual(stored["naive"], (2 * 64 * 64 * 4, 2 * 128 * 128 * 4))
        self.assertEqual(stored["fused"], (2 * 64 * 4, 2 * 128 * 4))
        self.assertEqual(stored["flash"][0], stored["flash"][1])
        self.assertEqual(report["sizes"][1]["o_bytes"], 128 * 16 * 4)
        for step in large.values():
            self.assertGreater(step["seconds"]["median"], 0)
            self.assertLess(step["difference_to_library"], 1e-4)

    def test_ladder_refuses_what_the_memory_or_the_patience_does_not_allow(self):
        text = self.tool("ladder", "--seqlen", "64,256", "--head-dim", 16, "--seconds", 0, "--memory", 0.25).stdout
        self.assertIn("naive    refused: scores and probabilities take 512.00 KiB; 256.00 KiB of memory are allowed (--memory)",
                      text)
        self.assertIn("flash ", text)
        text = self.tool("ladder", "--seqlen", "64,256", "--seconds", 0, "--longest", 1e-9).stdout
        self.assertIn("naive    refused: would take about ", text)
        for wrong in (("--seqlen", 0), ("--head-dim", 513), ("--threads", 0), ("--threads", 1025)):
            self.refused(str(wrong[1]), "ladder", *wrong)
        for option in ("--memory", "--longest"):
            for wrong in ("nan", "0", "-1"):
                self.refused(f"{option}: is {wrong}; it must be finite and above 0", "ladder", option, wrong)

    # -- the captured tensors

    def test_captured_tensors_are_those_the_sums_were_made_of(self):
        for line in (pathlib.Path(DATA) / "SHA256SUMS").read_text().splitlines():
            digest, name = line.split()
            self.assertEqual(hashlib.sha256((pathlib.Path(DATA) / name).read_bytes()).hexdigest(), digest, name)

    def test_demo_on_a_captured_layer(self):
        shutil.copy(pathlib.Path(DATA) / "layer19.safetensors", self.directory)
        text = self.tool("demo", self.directory).stdout
        self.assertIn("SmolLM2-135M-Instruct over 505 tokens", text)
        self.assertIn("all are within the accuracy contract", text)
        self.assertIn("17.51 MiB of scores", text)  # 2 * 9 * 505^2 * 4 bytes


if __name__ == "__main__":
    TOOL, DATA = sys.argv[1:3]
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")
    random.seed(seed)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=1)
