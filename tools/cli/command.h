// SPDX-License-Identifier: Apache-2.0
// The subcommands. Each adds itself to the parser and, when it is the one chosen, leaves what is to be done
// in *action, whose result is the exit code. Actions throw InputError and Failure (error.h).
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace flashattn::cli {

using Action = std::function<int()>;

void add_info_command(CLI::App &app, Action *action);
void add_run_command(CLI::App &app, Action *action);
void add_demo_command(CLI::App &app, Action *action);
void add_bench_command(CLI::App &app, Action *action);
void add_ladder_command(CLI::App &app, Action *action);

}  // namespace flashattn::cli
