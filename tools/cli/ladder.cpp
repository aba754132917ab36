// SPDX-License-Identifier: Apache-2.0
// flashattn ladder: from the definition of attention to the library's kernel, in time and in memory.
#include "bench/ladder/ladder.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/cli/bench_case.h"
#include "tools/cli/command.h"
#include "tools/cli/error.h"
#include "tools/cli/host_memory.h"
#include "tools/cli/library.h"
#include "tools/cli/progress.h"
#include "tools/cli/text.h"
#include "tools/cli/timing.h"
#include "tools/cli/validators.h"

namespace flashattn::cli {

namespace {

struct LadderArguments {
  std::vector<int64_t> seqlen = {1024, 2048, 4096, 8192};
  int64_t head_dim = 64;
  bool full = false;
  int32_t threads = 0;
  double memory_mib = 0;
  double longest = 30;
  Effort effort{1, 1};
  bool json = false;
  bool progress = false;
};

// One rung at one size.
struct Step {
  std::string rung;
  std::string stores;
  int64_t n = 0;
  double bytes = 0;     // intermediates
  std::string refused;  // why it was not run
  Spread seconds;
  float difference = 0;  // largest, to the library's O
};

struct Size {
  int64_t n = 0;
  double o_bytes = 0;
  std::string kernel;  // the library's
  std::vector<Step> steps;
};

// Memory that is not touched before a rung does, and given back as soon as it is done.
struct FreeFloats {
  void operator()(float *memory) const { std::free(memory); }
};
using Floats = std::unique_ptr<float, FreeFloats>;

Floats allocate(double bytes) {
  Floats memory(static_cast<float *>(std::malloc(static_cast<size_t>(std::max(bytes, 1.0)))));
  if (memory == nullptr) throw Failure("no memory for " + bytes_text(bytes));
  return memory;
}

// What a run would take, from the same rung at another size: all rungs do work that grows with n^2.
double expected_seconds(const std::vector<Size> &done, const std::string &rung, int64_t n) {
  double seconds = 0;
  for (const Size &size : done) {
    for (const Step &step : size.steps) {
      const double ratio = static_cast<double>(n) / static_cast<double>(size.n);
      if (step.rung == rung && step.refused.empty()) seconds = step.seconds.median * ratio * ratio;
    }
  }
  return seconds;
}

class Climb {
 public:
  Climb(const LadderArguments &arguments, const Device &device)
      : arguments_(arguments), device_(device), threads_(device.info().num_threads) {}

  Size run(const std::vector<Size> &done, int64_t n) const {
    BenchCase c;
    c.seqlen_q = c.seqlen_kv = n;
    c.dim = c.dim_v = arguments_.head_dim;
    c.causal = !arguments_.full;
    const BenchProblem problem(c);
    PreparedCall call(device_, problem.attention(), Layout::kBshd, PlanOptions{});

    Size size;
    size.n = n;
    size.o_bytes = 4 * static_cast<double>(n) * static_cast<double>(arguments_.head_dim);
    size.kernel = call.kernel();
    std::vector<Contestant> contestants;
    std::vector<Floats> memory;
    std::vector<std::vector<float>> outputs(ladder::kRungs);
    std::vector<size_t> timed;  // the step of each contestant
    for (int i = 0; i < ladder::kRungs; ++i) {
      const ladder::Rung &rung = ladder::kLadder[i];
      Step step{rung.name, rung.stores, n, bytes_of(rung, n), "", {}, 0};
      step.refused = objection(step, expected_seconds(done, rung.name, n));
      if (step.refused.empty()) {
        outputs[i].resize(static_cast<size_t>(n * arguments_.head_dim));
        memory.push_back(allocate(step.bytes));
        timed.push_back(size.steps.size());
        contestants.emplace_back(
            [this, &rung, &problem, o = outputs[i].data(), scratch = memory.back().get()](int repeats) {
              for (int r = 0; r < repeats; ++r) rung.run(as_rung(problem, o), threads_, scratch);
            });
      }
      size.steps.push_back(step);
    }
    timed.push_back(size.steps.size());
    size.steps.push_back(
        {"library", "workspace of the plan", n, static_cast<double>(call.info().workspace_size), "", {}, 0});
    contestants.emplace_back([&call](int repeats) { call.run_and_wait(repeats); });

    const std::vector<Spread> spreads = time_interleaved(contestants, arguments_.effort);
    for (size_t i = 0; i < timed.size(); ++i) size.steps[timed[i]].seconds = spreads[i];
    compare(call, outputs, &size);
    return size;
  }

 private:
  double bytes_of(const ladder::Rung &rung, int64_t n) const {
    return 4 * static_cast<double>(rung.intermediate_floats(n, arguments_.head_dim, threads_));
  }

  std::string objection(const Step &step, double seconds) const {
    const double limit = arguments_.memory_mib > 0 ? arguments_.memory_mib * 1024 * 1024
                                                   : static_cast<double>(available_memory());
    if (step.bytes > limit) {
      return step.stores + " take " + bytes_text(step.bytes) + "; " + bytes_text(limit) + " of memory " +
             (arguments_.memory_mib > 0 ? "are allowed (--memory)" : "are available");
    }
    if (seconds > arguments_.longest) {
      return "would take about " + seconds_text(seconds) + "; --longest is " +
             seconds_text(arguments_.longest);
    }
    return "";
  }

  ladder::Problem as_rung(const BenchProblem &problem, float *o) const {
    const Attention &a = problem.attention();
    const auto floats = [](const View &view) { return static_cast<const float *>(view.tensor->data()); };
    return {
        a.q.seqlen,  a.q.dim, 1 / std::sqrt(static_cast<float>(a.q.dim)), a.causal, floats(a.q), floats(a.k),
        floats(a.v), o};
  }

  // A rung that computes something else has no time worth showing.
  static void compare(const PreparedCall &call, const std::vector<std::vector<float>> &outputs, Size *size) {
    constexpr float kTolerance = 1e-3F;  // of values up to 1.1, with float32 sums over all keys
    const std::vector<float> o = to_floats(call.o());
    for (size_t i = 0; i < outputs.size(); ++i) {
      Step &step = size->steps[i];
      for (size_t at = 0; at < outputs[i].size(); ++at) {
        const float difference = std::fabs(outputs[i][at] - o[at]);
        step.difference =
            difference > step.difference || std::isnan(difference) ? difference : step.difference;
      }
      if (!(step.difference <= kTolerance)) {
        throw Failure(step.rung + " at n = " + std::to_string(step.n) + " differs from the library by " +
                      error_text(step.difference));
      }
    }
  }

  const LadderArguments &arguments_;
  const Device &device_;
  int threads_;
};

std::string format(const char *text, double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, text, value);
  return buffer;
}

const Step *find(const Size *size, const std::string &rung) {
  if (size == nullptr) return nullptr;
  for (const Step &step : size->steps) {
    if (step.rung == rung) return &step;
  }
  return nullptr;
}

// A character for every factor of four above 1 KiB.
std::string bar(double bytes) {
  const double fours = std::log2(std::max(bytes, 1024.0) / 1024) / 2;
  return std::string(static_cast<size_t>(std::lround(fours)) + 1, '#');
}

// previous is the size before, or null: growth is from there to here.
void print_size(const Size &size, const Size *previous) {
  const Step *naive = find(&size, "naive");
  std::cout << "n = " << size.n << ", O takes " << bytes_text(size.o_bytes) << "\n";
  for (const Step &step : size.steps) {
    std::cout << "  " << padded(step.rung, 9);
    if (!step.refused.empty()) {
      std::cout << "refused: " << step.refused << "\n";
      continue;
    }
    const Step *before = find(previous, step.rung);
    const auto growth = [before](double now, double then) {
      return before == nullptr || !before->refused.empty() ? std::string() : format("x%.1f", now / then);
    };
    const bool has_naive = naive->refused.empty();
    std::cout << padded_left(seconds_text(step.seconds.median), 11)
              << padded_left(before == nullptr ? "" : growth(step.seconds.median, before->seconds.median), 7)
              << padded_left(has_naive ? format("%.1fx", naive->seconds.median / step.seconds.median) : "-",
                             10)
              << padded_left(bytes_text(step.bytes), 13)
              << padded_left(before == nullptr ? "" : growth(step.bytes, before->bytes), 7) << "  "
              << bar(step.bytes) << "\n";
  }
  std::cout << std::endl;
}

void print_heading(const LadderArguments &a, const Device &device, const std::string &kernel) {
  std::cout
      << "One head, float32, dimension " << a.head_dim << (a.full ? ", full" : ", causal") << "; "
      << device.info().name << ", " << device.info().num_threads << " threads; library: " << kernel
      << "\n\n             time  growth  speed-up  intermediates  growth, one # for every factor of four\n";
}

nlohmann::ordered_json step_json(const Step &step) {
  nlohmann::ordered_json json{
      {"rung", step.rung}, {"stores", step.stores}, {"intermediate_bytes", step.bytes}};
  if (!step.refused.empty()) {
    json["refused"] = step.refused;
    return json;
  }
  json["seconds"] = {{"median", step.seconds.median},
                     {"lower_quartile", step.seconds.lower},
                     {"upper_quartile", step.seconds.upper},
                     {"samples", step.seconds.samples}};
  json["difference_to_library"] = step.difference;
  return json;
}

void print_json(const LadderArguments &a, const Device &device, const std::vector<Size> &sizes) {
  nlohmann::ordered_json root{{"command", "ladder"},
                              {"version", flashattn_version_string()},
                              {"device_name", device.info().name},
                              {"threads", device.info().num_threads},
                              {"head_dim", a.head_dim},
                              {"causal", !a.full},
                              {"kernel", sizes.back().kernel},
                              {"sizes", nlohmann::ordered_json::array()}};
  for (const Size &size : sizes) {
    nlohmann::ordered_json json{
        {"n", size.n}, {"o_bytes", size.o_bytes}, {"rungs", nlohmann::ordered_json::array()}};
    for (const Step &step : size.steps) json["rungs"].push_back(step_json(step));
    root["sizes"].push_back(json);
  }
  std::cout << root.dump(2) << "\n";
}

int climb(const LadderArguments &a) {
  const Device device(FLASHATTN_BACKEND_CPU, 0, a.threads);
  const Climb ladder(a, device);
  Progress progress(static_cast<int>(a.seqlen.size()), a.progress);
  std::vector<Size> sizes;
  for (const int64_t n : a.seqlen) {
    progress.step("n = " + std::to_string(n));
    sizes.push_back(ladder.run(sizes, n));
    progress.clear();
    if (a.json) continue;
    if (sizes.size() == 1) print_heading(a, device, sizes[0].kernel);
    print_size(sizes.back(), sizes.size() > 1 ? &sizes[sizes.size() - 2] : nullptr);
  }
  if (a.json) {
    print_json(a, device, sizes);
  } else {
    std::cout
        << "Intermediates are what a rung stores beside Q, K, V and O. The rungs are bench/ladder/*.cpp.\n";
  }
  return kExitOk;
}

}  // namespace

void add_ladder_command(CLI::App &app, Action *action) {
  CLI::App *command = app.add_subcommand(
      "ladder", "From the definition of attention to the library's kernel: time and memory as n grows");
  const auto a = std::make_shared<LadderArguments>();
  command->add_option("--seqlen", a->seqlen, "Queries and keys, rising")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  command->add_option("--head-dim", a->head_dim, "Dimension of the head")
      ->check(CLI::Range(int64_t{1}, int64_t{512}))
      ->capture_default_str();
  command->add_flag("--full", a->full, "Without the causal mask");
  command->add_option("--threads", a->threads, "CPU threads [all this process may use]")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  command->add_option("--memory", a->memory_mib, "Most MiB of intermediates [what is available]")
      ->type_name("MIB")
      ->check(finite_number(false));
  command->add_option("--longest", a->longest, "Leave out a rung that would take more seconds a run")
      ->type_name("S")
      ->check(finite_number(false))
      ->capture_default_str();
  command->add_option("--seconds", a->effort.seconds, "For each size, at least")
      ->check(finite_number(true))
      ->capture_default_str();
  command->add_option("--rounds", a->effort.rounds, "Of two samples of each rung, at least")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--json", a->json, "Print one JSON object; bench/plot draws it");
  command->add_flag("--progress", a->progress, "Tell each size on standard error, terminal or not");
  command->footer(
      "Examples:\n"
      "  flashattn ladder\n"
      "  flashattn ladder --seqlen 4096,8192,16384,32768,65536 --json > ladder.json");
  command->callback([=] { *action = [=] { return climb(*a); }; });
}

}  // namespace flashattn::cli
