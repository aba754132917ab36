# SPDX-License-Identifier: Apache-2.0
"""Ten prompts for the numerical comparison, half of them longer than 1,000 tokens and so many tiles of keys long."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def prompts(count=10):
    """Name and text of count prompts; long and short ones take turns."""
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    semantics = (ROOT / "docs/semantics.md").read_text(encoding="utf-8")
    story = (ROOT / "tests/data/smollm2/text.txt").read_text(encoding="utf-8")
    texts = {
        "story": "Once upon a time, in a village by the sea,",
        "list": "The ten largest cities of the world, with their countries, are:\n1.",
        "code": "def fibonacci(n):\n    \"\"\"Returns the n-th Fibonacci number.\"\"\"\n",
        "chat": "<|im_start|>user\nWhy is the sky blue? Explain it to a child.<|im_end|>\n<|im_start|>assistant\n",
        "text": story[:2400],
        "licence": licence[:5600],
        "licence, later": licence[4400:11200],
        "rules": semantics[:4800],
        "rules, then a question": semantics[2000:7200] + "\n\nIn short, the rules say that",
        "licence twice": licence[1400:4800] + licence[1400:4800],
    }
    names = list(texts)
    turns = [name for pair in zip(names[5:], names[:5]) for name in pair]
    return {name: texts[name] for name in turns[:count]}
