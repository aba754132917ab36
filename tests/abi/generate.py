# SPDX-License-Identifier: Apache-2.0
"""Writes the C programs that are made of the header's declarations.

  generate.py HEADER calls         calls every declared function with arguments of zero
  generate.py HEADER initialisers  compares INIT macro, init function and a zero-filled struct
  generate.py HEADER layout FILE   asserts the committed layout
  generate.py HEADER print-layout  prints the layout as layout.txt has it
  generate.py HEADER stub          defines every function, to compare the types of two headers by debug information
"""

import sys

from header import Header

TOP = """/* Generated from include/flashattn.h by tests/abi/generate.py. */
#include <flashattn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
"""


def calls(header):
    """No function may crash on zeros, and none that returns a status may find them right."""
    lines = [TOP, "int main(void) {", "  int failures = 0;"]
    for function in header.functions:
        arguments = ", ".join(f"({kind})0" for kind in function.parameters)
        call = f"{function.name}({arguments})"
        if function.result == "flashattn_status_t":
            lines.append(f'  if ({call} == FLASHATTN_STATUS_OK) {{ printf("{function.name} accepts zeros\\n"); '
                         "++failures; }")
        else:
            lines.append(f"  (void){call};")
    lines += [f'  printf("called {len(header.functions)} functions\\n");', "  return failures != 0;", "}"]
    return lines


def initialisers(header):
    functions = {function.name for function in header.functions}
    lines = [TOP]
    for macro, struct in header.initialisers.items():
        fields = next(s.fields for s in header.structs if s.name == struct)
        lines += [f"static int check_{struct}(void) {{",
                  f"  {struct} by_macro = {macro};",
                  f"  {struct} zero;",
                  "  memset(&zero, 0, sizeof zero);"]
        if fields[0] == "struct_size":
            lines.append("  zero.struct_size = (uint32_t)sizeof zero;")
        lines.append("  int failures = memcmp(&by_macro, &zero, sizeof zero) != 0;")
        init = struct[:-len("_t")] + "_init"
        if init in functions:
            lines += [f"  {struct} by_function;",
                      "  memset(&by_function, 0xff, sizeof by_function);",
                      f"  {init}(&by_function);",
                      "  failures += memcmp(&by_function, &zero, sizeof zero) != 0;"]
        lines += [f'  if (failures) printf("{struct}: the ways to initialise it differ\\n");',
                  "  return failures;", "}"]
    lines += ["int main(void) {", "  int failures = 0;"]
    lines += [f"  failures += check_{struct}();" for struct in header.initialisers.values()]
    lines += ["  return failures != 0;", "}"]
    return lines


def layout(header, path):
    """Every field of the header must have its line in the table, and the reverse."""
    with open(path, encoding="utf-8") as file:
        rows = [line.split() for line in file if line.strip() and not line.startswith("#")]
    listed = [(row[0], row[1], " ".join(row[4:])) for row in rows]
    declared = [(s.name, field, s.types.get(field, "")) for s in header.structs for field in ["(size)"] + s.fields]
    if listed != declared:
        difference = sorted(set(listed) ^ set(declared)) or "the order of fields"
        sys.exit(f"layout.txt and the header differ in {difference}; see tests/abi/renew")
    lines = [TOP, "#if !defined(__LP64__)", "#error the table describes LP64 machines", "#endif"]
    for name, field, *numbers in rows:
        if field == "(size)":
            lines.append(f'_Static_assert(sizeof({name}) == {numbers[0]}, "size of {name}");')
        else:
            offset, size = numbers[:2]
            lines.append(f'_Static_assert(offsetof({name}, {field}) == {offset}, "offset of {name}.{field}");')
            lines.append(f'_Static_assert(sizeof((({name} *)0)->{field}) == {size}, "size of {name}.{field}");')
    return lines + ["int main(void) { return 0; }"]


def print_layout(header):
    lines = [TOP, "int main(void) {"]
    for struct in header.structs:
        lines.append(f'  printf("{struct.name} (size) %zu\\n", sizeof({struct.name}));')
        lines += [f'  printf("{struct.name} {field} %zu %zu {struct.types[field]}\\n", offsetof({struct.name}, {field}), '
                  f"sizeof((({struct.name} *)0)->{field}));" for field in struct.fields]
    return lines + ["  return 0;", "}"]


def stub(header):
    lines = [TOP]
    for function in header.functions:
        parameters = ", ".join(f"{kind} a{number}" for number, kind in enumerate(function.parameters)) or "void"
        body = "" if function.result == "void" else "return 0; "
        lines.append(f"{function.result} {function.name}({parameters}) {{ {body}}}")
    return lines


def main():
    header = Header(sys.argv[1])
    made = {"calls": calls, "initialisers": initialisers, "layout": layout, "print-layout": print_layout,
            "stub": stub}
    print("\n".join(made[sys.argv[2]](header, *sys.argv[3:])))


if __name__ == "__main__":
    main()
