# SPDX-License-Identifier: Apache-2.0
"""Reads include/flashattn.h: what it declares, as data for the gates of this directory."""

import re
from collections import namedtuple

Function = namedtuple("Function", "result name parameters")  # parameters: types without names
Struct = namedtuple("Struct", "name fields types")  # fields: names in order; types: of each, with "[]" for arrays


class Header:
    """functions, structs (those with fields), and initialisers (macro name -> struct name)."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        text = re.sub(r"//[^\n]*", " ", text)
        macros = re.findall(r"#define (FLASHATTN_\w+_INIT)\b", text)
        code = re.sub(r"(?m)^#(?:[^\n\\]|\\\n)*$", "", text)  # without the preprocessor's lines

        self.functions = [
            Function(" ".join(result.split()), name, _types(parameters))
            for result, name, parameters in re.findall(
                r"FLASHATTN_API\s+([\w\s*]+?)\s*FLASHATTN_CALL\s+(\w+)\s*\((.*?)\)\s*;", code, flags=re.S)
        ]
        self.structs = []
        for body, name in re.findall(r"typedef struct \w+\s*\{(.*?)\}\s*(\w+);", code, flags=re.S):
            fields = re.findall(r"([\w\s*]+?)(\w+)(\[\w+\])?\s*;", body)
            types = {field: " ".join(kind.split()) + ("[]" if array else "") for kind, field, array in fields}
            self.structs.append(Struct(name, [field for _, field, _ in fields], types))
        names = {struct.name for struct in self.structs}
        self.initialisers = {macro: "flashattn_" + macro[len("FLASHATTN_"):-len("_INIT")].lower() + "_t"
                             for macro in macros}
        unknown = set(self.initialisers.values()) - names
        declared = len(re.findall(r"\bFLASHATTN_API\b", code))
        if unknown or declared != len(self.functions):
            raise ValueError(f"{path}: cannot read {unknown or 'every FLASHATTN_API declaration'}")


def _types(parameters):
    """The types of a parameter list, without the parameters' names."""
    parameters = " ".join(parameters.split())
    if parameters in ("", "void"):
        return []
    return [re.sub(r"\b\w+$", "", parameter).strip() for parameter in parameters.split(", ")]
