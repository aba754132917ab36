# SPDX-License-Identifier: Apache-2.0
"""What the two libraries may contain and need, by nm and readelf.

  artefacts.py GATE --header FILE --symbols FILE --shared FILE --static FILE --source DIR [--sanitized]

GATE is one of symbols, needs, elf, start, calls, paths.
"""

import argparse
import re
import subprocess
import sys

from header import Header

NODE = "FLASHATTN_0.1"
SONAME = "libflashattn.so.0"
# The C library (its dynamic loader answers for thread-local storage) and the C++ run-time library.
NEEDED = r"lib(c|m|dl|pthread|stdc\+\+|gcc_s)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+"
SANITIZERS = r"lib(asan|ubsan|tsan)\.so\.\d+|librt\.so\.1|libresolv\.so\.2"
# What Debian 12 has. A newer version asked for means that an older system no longer loads the library.
NEWEST = {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12,)}
# Nothing prints, exits or aborts inside the library. (The log to standard error is one vfprintf, fputs or fwrite.)
FORBIDDEN = {"abort", "exit", "_exit", "quick_exit", "_Exit", "at_quick_exit", "atexit", "printf", "vprintf", "puts",
             "putchar", "perror", "__printf_chk", "__vprintf_chk", "__assert_fail", "raise", "kill", "signal",
             "sigaction", "system", "setenv", "putenv", "setlocale", "fork", "_ZSt4cout", "_ZSt4cerr", "_ZSt4clog",
             "_ZNSt8ios_base4InitC1Ev"}
# Constructors the compiler's own start-up files and libgcc bring: nothing of ours.
START = {"frame_dummy", "__cpu_indicator_init"}
MAX_BYTES = 30 * 1000 * 1000


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols(args):
    """The header's functions, the committed list and what either library exports are the same."""
    with open(args.symbols, encoding="utf-8") as file:
        listed = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    if listed != sorted(listed):
        yield "symbols.txt is not sorted"
    declared = sorted(f"{function.name} {NODE}" for function in Header(args.header).functions)
    exported = []
    for line in output("nm", "-D", "--defined-only", args.shared).splitlines():
        name = line.split()[-1]
        if name != NODE:
            exported.append(" ".join(name.replace("@@", "@").split("@")))
    archived = [line.split()[-1] for line in output("nm", "-g", "--defined-only", args.static).splitlines()
                if len(line.split()) == 3]
    for what, found, wanted in (("the header declares", declared, listed),
                                (f"{args.shared} exports", sorted(exported), listed),
                                (f"{args.static} defines", sorted(archived), [row.split()[0] for row in listed])):
        for name in sorted(set(found) - set(wanted)):
            yield f"{what} {name}, which symbols.txt lacks"
        for name in sorted(set(wanted) - set(found)):
            yield f"symbols.txt has {name}: not what {what}"


def needs(args):
    """The shared library needs nothing but the C and C++ run-time libraries, none newer than Debian 12's."""
    allowed = NEEDED + ("|" + SANITIZERS if args.sanitized else "")
    dynamic = output("readelf", "-dW", args.shared)
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if not re.fullmatch(allowed, library):
            yield f"needs {library}"
    for family, version in re.findall(r"\b(GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)", output("readelf", "-VW", args.shared)):
        if tuple(map(int, version.split("."))) > NEWEST[family]:
            yield f"needs {family}_{version}, newer than Debian 12 has"


def elf(args):
    """SONAME, hardening, no search path, size; the archive is one object without groups."""
    dynamic = output("readelf", "-dW", args.shared)
    segments = output("readelf", "-lW", args.shared)
    if re.findall(r"SONAME.*\[(.*)\]", dynamic) != [SONAME]:
        yield f"the SONAME is not {SONAME}"
    if "BIND_NOW" not in dynamic:
        yield "not linked with -z now"
    if "GNU_RELRO" not in segments:
        yield "not linked with -z relro"
    if not re.search(r"GNU_STACK.*\bRW\b", segments):
        yield "the stack is executable, or says nothing"
    for tag in ("TEXTREL", "RPATH", "RUNPATH"):
        if re.search(rf"\b{tag}\b", dynamic):
            yield f"has {tag}"
    size = len(open(args.shared, "rb").read())
    if not args.sanitized and size > MAX_BYTES:
        yield f"is {size} bytes; the limit is {MAX_BYTES}"
    members = output("ar", "t", args.static).split()
    if len(members) != 1:
        yield f"the archive has {len(members)} members, not one"
    sections = output("readelf", "-SW", args.static)
    for name in (".group", ".gnu.lto"):
        if name in sections:
            yield f"the archive has {name} sections"
    for line in output("readelf", "-sW", args.static).splitlines():
        if re.search(r"\bUNIQUE\b", line):
            yield f"the archive has a unique symbol: {line.split()[-1]}"


def start(args):
    """Nothing of ours runs when the library is loaded or unloaded."""
    if args.sanitized:
        return  # the sanitizer registers its globals there
    sections = output("readelf", "-SW", args.static)
    for name in (".init_array", ".fini_array", ".ctors", ".dtors", ".preinit_array"):
        if name in sections:
            yield f"the archive has {name}"
    match = re.search(r"\.init_array\s+INIT_ARRAY\s+(\w+)\s+\w+\s+(\w+)", output("readelf", "-SW", args.shared))
    if not match:
        return
    address, size = (int(text, 16) for text in match.groups())
    named = {int(line.split()[0], 16): line.split()[2] for line in output("nm", args.shared).splitlines()
             if len(line.split()) == 3}
    pointers = {}
    for line in output("readelf", "-rW", args.shared).splitlines():
        words = line.split()
        if len(words) >= 4 and "RELATIV" in words[2]:
            pointers[int(words[0], 16)] = int(words[3], 16)
    for entry in range(address, address + size, 8):
        name = named.get(pointers.get(entry), "an unnamed function")
        if name not in START:
            yield f"runs {name} when it is loaded"


def calls(args):
    """No function that prints, exits, aborts or changes the process is even referred to."""
    if args.sanitized:
        return
    for artefact in (args.shared, args.static):
        names = {line.split()[-1].split("@")[0]
                 for line in output("nm", "-u", artefact).splitlines() if line.split()}
        for name in sorted(names & FORBIDDEN):
            yield f"{artefact} calls {name}"


def paths(args):
    """The place of the sources is nowhere in what is shipped."""
    if args.sanitized:
        return  # the sanitizer names source files by their full path
    for artefact in (args.shared, args.static):
        if args.source.encode() in open(artefact, "rb").read():
            yield f"{artefact} contains {args.source}"


GATES = {"symbols": symbols, "needs": needs, "elf": elf, "start": start, "calls": calls, "paths": paths}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gate", choices=GATES)
    for name in ("header", "symbols", "shared", "static", "source"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--sanitized", action="store_true")
    args = parser.parse_args()
    faults = list(GATES[args.gate](args))
    for fault in faults:
        print(fault)
    if faults:
        sys.exit(1)
    print(f"{args.gate}: {GATES[args.gate].__doc__}")


if __name__ == "__main__":
    main()
