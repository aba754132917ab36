// SPDX-License-Identifier: Apache-2.0
// flashattn bench: how fast the library is on this machine, over sizes, element types and features.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/bench_case.h"
#include "tools/cli/command.h"
#include "tools/cli/error.h"
#include "tools/cli/library.h"
#include "tools/cli/progress.h"
#include "tools/cli/text.h"
#include "tools/cli/timing.h"
#include "tools/cli/validators.h"

namespace flashattn::cli {

namespace {

struct BenchArguments {
  int64_t batch = 1;
  int64_t heads = 4;
  int64_t heads_kv = 0;
  std::vector<int64_t> seqlen = {1024, 4096};
  int64_t seqlen_q = 0;
  std::vector<int64_t> head_dim = {64, 128};
  int64_t head_dim_v = 0;
  std::vector<std::string> dtype = {"f32", "bf16"};
  std::string dtype_kv;
  std::vector<std::string> mask = {"full", "causal"};
  std::vector<int32_t> window;
  float softcap = 0;
  bool alibi = false;
  bool sinks = false;
  std::string bias;
  std::string backend = "auto";
  int32_t device = 0;
  std::vector<int32_t> threads = {0};
  std::vector<std::string> kernel = {""};
  int32_t num_splits = 0;
  bool batch_invariant = false;
  Effort effort{3, 1};
  bool json = false;
  bool progress = false;
};

CLI::Validator at_least(int64_t least) {
  return CLI::Range(least, int64_t{INT32_MAX}, "N >= " + std::to_string(least));
}

void add_arguments(CLI::App *command, BenchArguments *a) {
  const char *sizes = "Sizes; a list, 1,2,3, makes a case of each";
  command->add_option("--seqlen", a->seqlen, "Queries and keys of a sequence")
      ->delimiter(',')
      ->check(at_least(1))
      ->capture_default_str()
      ->group(sizes);
  command
      ->add_option("--seqlen-q", a->seqlen_q, "Queries where they are fewer or more than keys; 1 is decode")
      ->type_name("N")
      ->check(at_least(1))
      ->group(sizes);
  command->add_option("--head-dim", a->head_dim, "Of Q and K")
      ->delimiter(',')
      ->check(at_least(1))
      ->capture_default_str()
      ->group(sizes);
  command->add_option("--head-dim-v", a->head_dim_v, "Of V and O [as Q]")
      ->type_name("N")
      ->check(at_least(1))
      ->group(sizes);
  command->add_option("--batch", a->batch, "Sequences")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(sizes);
  command->add_option("--heads", a->heads, "Query heads")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(sizes);
  command->add_option("--heads-kv", a->heads_kv, "KV heads [as query heads]")
      ->type_name("N")
      ->check(at_least(1))
      ->group(sizes);
  command->add_option("--dtype", a->dtype, "Of Q and O, and of K and V: f32, f16, bf16")
      ->delimiter(',')
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->capture_default_str()
      ->group(sizes);
  command->add_option("--dtype-kv", a->dtype_kv, "Of K and V where it differs")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->group(sizes);

  const char *features = "Features";
  command->add_option("--mask", a->mask, "full, causal or both")
      ->delimiter(',')
      ->check(CLI::IsMember({"full", "causal"}))
      ->capture_default_str()
      ->group(features);
  command->add_option("--window", a->window, "Keys to the left and right of the diagonal; -1 is unbounded")
      ->delimiter(',')
      ->expected(2)
      ->type_name("L,R")
      ->group(features);
  command->add_option("--softcap", a->softcap, "c * tanh(score / c)")->type_name("C")->group(features);
  command->add_flag("--alibi", a->alibi, "Slopes 2^(-8 (h + 1) / heads)")->group(features);
  command->add_flag("--sinks", a->sinks, "A sink per head")->group(features);
  command->add_option("--bias", a->bias, "A bias [Sq, Sk] for all heads; u8 is a boolean mask")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "u8"}))
      ->group(features);

  const char *how = "How";
  command->add_option("--backend", a->backend, "Where to compute")
      ->check(CLI::IsMember({"auto", "cpu", "cuda", "hip"}))
      ->capture_default_str()
      ->group(how);
  command->add_option("--device", a->device, "Which device of the backend [0]")->type_name("N")->group(how);
  command->add_option("--threads", a->threads, "CPU threads; a list compares them [all this process may use]")
      ->delimiter(',')
      ->check(at_least(1))
      ->group(how);
  command
      ->add_option("--kernel", a->kernel,
                   "Force a kernel by the name 'flashattn info' shows; a list compares")
      ->delimiter(',')
      ->type_name("NAME")
      ->group(how);
  command->add_option("--num-splits", a->num_splits, "KV splits [the library chooses]")
      ->type_name("N")
      ->group(how);
  command
      ->add_flag("--batch-invariant", a->batch_invariant, "Bits of a row do not depend on batch or lengths")
      ->group(how);

  const char *measuring = "Measuring";
  command->add_option("--seconds", a->effort.seconds, "For each case, at least")
      ->check(finite_number(true))
      ->capture_default_str()
      ->group(measuring);
  command->add_option("--rounds", a->effort.rounds, "Of two samples each, at least")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(measuring);
  command->add_flag("--json", a->json, "Print one JSON object; bench/plot draws it")->group(measuring);
  command->add_flag("--progress", a->progress, "Tell each case on standard error, terminal or not")
      ->group(measuring);
  command->footer(
      "Examples:\n"
      "  flashattn bench\n"
      "  flashattn bench --seqlen 512,1024,2048,4096,8192 --dtype f32 --json > sweep.json\n"
      "  flashattn bench --seqlen 32768 --seqlen-q 1 --heads 32 --heads-kv 8 --head-dim 128 --mask causal\n"
      "  flashattn bench --kernel fwd_cpu_avx2,fwd_cpu_scalar --threads 1,2 --seqlen 1024");
}

std::vector<BenchCase> make_cases(const BenchArguments &a) {
  std::vector<BenchCase> cases;
  BenchCase c;
  c.batch = a.batch;
  c.heads_q = a.heads;
  c.heads_kv = a.heads_kv > 0 ? a.heads_kv : a.heads;
  c.softcap = a.softcap;
  c.alibi = a.alibi;
  c.sinks = a.sinks;
  c.bias = !a.bias.empty();
  if (c.bias) c.element_bias = element_of_name(a.bias);
  c.window = !a.window.empty();
  if (c.window) {
    c.window_left = a.window[0];
    c.window_right = a.window[1];
  }
  for (const std::string &dtype : a.dtype) {
    c.element_q = element_of_name(dtype);
    c.element_kv = a.dtype_kv.empty() ? c.element_q : element_of_name(a.dtype_kv);
    for (const int64_t dim : a.head_dim) {
      c.dim = dim;
      c.dim_v = a.head_dim_v > 0 ? a.head_dim_v : dim;
      for (const std::string &mask : a.mask) {
        c.causal = mask == "causal";
        for (const int64_t seqlen : a.seqlen) {
          c.seqlen_kv = seqlen;
          c.seqlen_q = a.seqlen_q > 0 ? a.seqlen_q : seqlen;
          cases.push_back(c);
        }
      }
    }
  }
  return cases;
}

// A case that was run, or why it was not.
struct Row {
  BenchCase c;
  int32_t threads = 0;
  std::string kernel;  // the one that ran, or the one asked for
  std::string refused;
  flashattn_plan_info_t plan{};
  Spread seconds;
  double flop = 0;
  double bytes = 0;
};

Row measure(const Device &device, const BenchCase &c, const std::string &kernel, const BenchArguments &a) {
  Row row;
  row.c = c;
  row.threads = device.info().num_threads;
  row.kernel = kernel;
  try {
    const BenchProblem problem(c);
    PlanOptions options;
    options.kernel = kernel;
    options.num_splits = a.num_splits;
    options.batch_invariant = a.batch_invariant;
    options.element_o = c.element_q;
    PreparedCall call(device, problem.attention(), Layout::kBshd, options);
    row.kernel = call.kernel();
    row.plan = call.info();
    row.flop = attention_flop(problem.attention());
    row.bytes = tensor_bytes(c);
    row.seconds = time_interleaved({[&call](int repeats) { call.run_and_wait(repeats); }}, a.effort)[0];
  } catch (const Failure &failure) {
    row.refused = failure.what();
  }
  return row;
}

std::string format(const char *text, double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, text, value);
  return buffer;
}

std::string rate_text(double per_second) {
  if (per_second >= 1e12) return format("%.1f T", per_second * 1e-12);
  if (per_second >= 1e9) return format("%.1f G", per_second * 1e-9);
  return format("%.1f M", per_second * 1e-6);
}

// Half of the distance between the quartiles, as a share of the median.
double relative_spread(const Spread &s) {
  return (s.upper - s.lower) / 2 / s.median;
}

void print_line(const std::string &name, const std::vector<std::string> &cells) {
  std::cout << padded(name, 40);
  for (const std::string &cell : cells) std::cout << padded_left(cell, 12);
}

void print_heading(const Device &device) {
  const flashattn_handle_info_t &info = device.info();
  std::cout << "libflashattn " << flashattn_version_string() << ", " << backend_name(info.backend) << " "
            << info.device << ": " << info.name;
  if (info.num_threads > 0) std::cout << ", " << info.num_threads << " threads";
  std::cout << "\n\n";
  print_line("batch x heads x rows x dimension", {"median", "spread", "FLOP/s", "bytes/s"});
  std::cout << "  kernel\n";
}

void print_row(const Row &row) {
  if (!row.refused.empty()) {
    std::cout << padded(case_text(row.c), 40) << "  refused: " << row.refused << "\n";
    return;
  }
  print_line(case_text(row.c),
             {seconds_text(row.seconds.median), format("+-%.1f %%", 100 * relative_spread(row.seconds)),
              rate_text(row.flop / row.seconds.median), rate_text(row.bytes / row.seconds.median)});
  std::cout << "  " << row.kernel;
  if (row.plan.num_splits > 1) std::cout << ", up to " << row.plan.num_splits << " splits";
  std::cout << std::endl;
}

nlohmann::ordered_json row_json(const Row &row) {
  const BenchCase &c = row.c;
  nlohmann::ordered_json json{{"case", case_text(c)},
                              {"dtype", element_name(c.element_q)},
                              {"dtype_kv", element_name(c.element_kv)},
                              {"batch", c.batch},
                              {"heads", c.heads_q},
                              {"heads_kv", c.heads_kv},
                              {"seqlen_q", c.seqlen_q},
                              {"seqlen_kv", c.seqlen_kv},
                              {"head_dim", c.dim},
                              {"head_dim_v", c.dim_v},
                              {"causal", c.causal},
                              {"window", c.window ? nlohmann::ordered_json{c.window_left, c.window_right}
                                                  : nlohmann::ordered_json(nullptr)},
                              {"softcap", c.softcap},
                              {"alibi", c.alibi},
                              {"sinks", c.sinks},
                              {"bias", c.bias ? nlohmann::ordered_json(element_name(c.element_bias))
                                              : nlohmann::ordered_json(nullptr)},
                              {"threads", row.threads},
                              {"kernel", row.kernel}};
  if (!row.refused.empty()) {
    json["refused"] = row.refused;
    return json;
  }
  json["num_splits"] = row.plan.num_splits;
  json["workspace_bytes"] = row.plan.workspace_size;
  json["materialized_bytes"] = row.plan.materialized_bytes;
  json["seconds"] = {{"median", row.seconds.median},
                     {"lower_quartile", row.seconds.lower},
                     {"upper_quartile", row.seconds.upper},
                     {"samples", row.seconds.samples}};
  json["flop_per_second"] = row.flop / row.seconds.median;
  json["bytes_per_second"] = row.bytes / row.seconds.median;
  return json;
}

int bench(const BenchArguments &a) {
  const std::vector<BenchCase> cases = make_cases(a);
  Progress progress(static_cast<int>(cases.size() * a.threads.size() * a.kernel.size()), a.progress);
  nlohmann::ordered_json root;
  bool any = false;
  for (const int32_t threads : a.threads) {
    const Device device(backend_of_name(a.backend), a.device, threads);
    if (root.is_null()) {
      root = {{"command", "bench"},
              {"version", flashattn_version_string()},
              {"backend", backend_name(device.info().backend)},
              {"device", device.info().device},
              {"device_name", device.info().name},
              {"rows", nlohmann::ordered_json::array()}};
    }
    if (!a.json) print_heading(device);
    for (const BenchCase &c : cases) {
      for (const std::string &kernel : a.kernel) {
        progress.step(case_text(c) + (kernel.empty() ? "" : ", " + kernel));
        const Row row = measure(device, c, kernel, a);
        progress.clear();
        any = any || row.refused.empty();
        a.json ? root["rows"].push_back(row_json(row)) : print_row(row);
      }
    }
    if (!a.json && &threads != &a.threads.back()) std::cout << "\n";
  }
  if (a.json) {
    std::cout << root.dump(2) << "\n";
  } else {
    std::cout
        << "\nMedian of one call; spread: half of the distance between the quartiles. FLOP count 2 (D + D_v) "
           "for every\nvisible pair of query and key, bytes Q, K, V and O once.\n";
  }
  if (!any) throw Failure("no case could be run");
  return kExitOk;
}

}  // namespace

void add_bench_command(CLI::App &app, Action *action) {
  CLI::App *command = app.add_subcommand("bench", "Measure speed over sizes, element types and features");
  const auto arguments = std::make_shared<BenchArguments>();
  add_arguments(command, arguments.get());
  command->callback([=] { *action = [=] { return bench(*arguments); }; });
}

}  // namespace flashattn::cli
