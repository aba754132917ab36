# SPDX-License-Identifier: Apache-2.0
"""llama-cpp-python's own OpenAI-compatible server, with GGML_BACKEND_PATH honoured.

    python_server.py PACKAGE [ITS ARGUMENTS...]

The package never asks ggml to look for backends; one call before the first model does.
"""

import sys

sys.path.insert(0, sys.argv.pop(1))

import llama_cpp._ggml  # noqa: E402  pylint: disable=wrong-import-position

llama_cpp._ggml.libggml.ggml_backend_load_all()  # pylint: disable=protected-access

from llama_cpp.server.__main__ import main  # noqa: E402  pylint: disable=wrong-import-position

main()
