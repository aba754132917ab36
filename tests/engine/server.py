# SPDX-License-Identifier: Apache-2.0
"""llama-server as a context manager, with or without the plug-in."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import time

import httpx

NAME = "smollm2"
SERVED = re.compile(r"flashattn: (\d+) attention calls served")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, process, port, log):
        self.process = process
        self.base = f"http://127.0.0.1:{port}"
        self.url = self.base + "/v1"
        self.log = log

    def cpu_seconds(self):
        """Processor time of the whole process so far."""
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def calls(self):
        """Attention calls that the plug-in has logged; after the server has stopped."""
        return sum(int(count) for count in SERVED.findall(self.log.read_text(encoding="utf-8", errors="replace")))


@contextlib.contextmanager
def serve(binary, model, log, plugin=None, threads=2, options=()):
    """Starts binary on a free port, waits until it answers, and ends it in good order."""
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if name != "GGML_BACKEND_PATH"}
    if plugin:
        environment["GGML_BACKEND_PATH"] = str(plugin)
    # The override changes nothing: without some such option this server never looks for backends.
    command = [str(binary), "-m", str(model), "--alias", NAME, "--host", "127.0.0.1", "--port", str(port), "-fa", "on",
               "-c", "16384", "-t", str(threads), "-tb", str(threads), "--verbosity", "4", "-ot",
               "no-such-tensor=CPU", *options]
    with open(log, "w", encoding="utf-8") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    server = Server(process, port, log)
    try:
        wait_until_ready(server)
        yield server
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_ready(server, seconds=300):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if server.process.poll() is not None:
            raise RuntimeError(f"the server ended with {server.process.returncode}; see {server.log}")
        try:
            if httpx.get(server.base + "/health", timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.25)
    raise RuntimeError(f"the server was not ready within {seconds} s; see {server.log}")
