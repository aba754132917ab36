// SPDX-License-Identifier: Apache-2.0
// The flashattn command. Results go to standard output, errors to standard error; exit codes are in error.h.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>

#include "flashattn.h"
#include "tools/cli/command.h"
#include "tools/cli/error.h"

namespace flashattn::cli {

namespace {

int fail(int code, const char *text) {
  std::fprintf(stderr, "flashattn: %s\n", text);
  return code;
}

int run_command_line(int argc, char **argv) {
  CLI::App app("Exact attention without the score matrix: looks at and runs libflashattn.", "flashattn");
  app.set_version_flag("--version", flashattn_version_string());
  app.footer(
      "Exit codes: 0 done, 1 the library, the machine or a check failed, 2 wrong usage or a bad input file.\n"
      "'flashattn COMMAND --help' has examples.");
  Action action;
  add_info_command(app, &action);
  add_run_command(app, &action);
  add_demo_command(app, &action);
  add_bench_command(app, &action);
  add_ladder_command(app, &action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError &error) {
    std::fprintf(stderr, "flashattn: %s\nTry 'flashattn --help'.\n", error.what());
    return kExitInput;
  }
  if (!action) {
    std::fprintf(stderr, "flashattn: a command is needed\nTry 'flashattn --help'.\n");
    return kExitInput;
  }
  const int code = action();
  std::cout.flush();
  return std::cout ? code : fail(kExitFailure, "standard output cannot be written");
}

}  // namespace

}  // namespace flashattn::cli

int main(int argc, char **argv) {
  using namespace flashattn::cli;
  try {
    return run_command_line(argc, argv);
  } catch (const InputError &error) {
    return fail(kExitInput, error.what());
  } catch (const std::bad_alloc &) {
    return fail(kExitFailure, "out of memory");
  } catch (const std::exception &error) {
    return fail(kExitFailure, error.what());
  }
}
