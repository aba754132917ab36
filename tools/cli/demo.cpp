// SPDX-License-Identifier: Apache-2.0
// flashattn demo: a model's captured layers, one line each: error, time, memory not used.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/cli/command.h"
#include "tools/cli/error.h"
#include "tools/cli/job.h"
#include "tools/cli/tensor_file.h"
#include "tools/cli/text.h"

namespace flashattn::cli {

namespace {

struct DemoArguments {
  std::string directory;
  std::string backend = "auto";
  int32_t device = 0;
  int32_t threads = 0;
};

struct Layer {
  std::string path;
  std::map<std::string, std::string> metadata;
  Tensor q, k, v;
  Attention problem;

  std::string about(const std::string &key) const {
    const auto found = metadata.find(key);
    if (found == metadata.end()) throw InputError(path + ": __metadata__ has no " + key);
    return found->second;
  }
};

std::unique_ptr<Layer> load_layer(const std::string &path) {
  auto layer = std::make_unique<Layer>();
  layer->path = path;
  layer->metadata = read_metadata(path);
  layer->q = read_tensor(path, "q", true);
  layer->k = read_tensor(path, "k", true);
  layer->v = read_tensor(path, "v", true);
  layer->problem.q = make_view("q", layer->q, Layout::kBshd);
  layer->problem.k = make_view("k", layer->k, Layout::kBshd);
  layer->problem.v = make_view("v", layer->v, Layout::kBshd);
  layer->problem.causal = layer->about("causal") == "1";
  return layer;
}

std::vector<std::string> layer_files(const std::string &directory) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto &entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".safetensors") paths.push_back(entry.path().string());
  }
  if (error) throw InputError(directory + ": " + error.message());
  if (paths.empty()) throw InputError(directory + ": has no .safetensors file");
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Right-aligned columns under their headings.
void print_row(const std::vector<std::string> &cells) {
  constexpr size_t kWidths[] = {6, 10, 12, 10, 14, 16, 9};
  for (size_t i = 0; i < cells.size(); ++i) std::cout << padded_left(cells[i], kWidths[i]);
  std::cout << "\n";
}

std::string factor_text(double factor) {
  const auto tenths = std::llround(factor * 10);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "x";
}

int demo(const DemoArguments &a) {
  const std::vector<std::string> paths = layer_files(a.directory);
  const Device device(backend_of_name(a.backend), a.device, a.threads);
  JobOptions options;
  options.check = true;
  options.time = true;
  bool ok = true;
  std::string kernel;
  JobResult job;
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::unique_ptr<Layer> layer = load_layer(paths[i]);
    options.plan.element_o = layer->q.element();
    job = run_job(device, layer->problem, Layout::kBshd, options);
    if (i == 0) {
      const Attention &p = layer->problem;
      std::cout << "Input     Q, K, V of " << layer->about("model") << " over " << layer->about("tokens")
                << " tokens of a real text: " << p.q.heads << " query heads, " << p.k.heads
                << " KV heads, dimension " << p.q.dim << ", " << element_name(layer->q.element())
                << (p.causal ? ", causal" : "") << "\n"
                << "Backend   " << backend_name(device.info().backend) << ": " << device.info().name;
      if (device.info().num_threads > 0) std::cout << ", " << device.info().num_threads << " threads";
      std::cout << "\nKernel    " << job.kernel << "\n\n";
      print_row({"layer", "O error", "f32 error*", "LSE error", "flashattn", "materialised**", "speed-up"});
    }
    const bool timed = job.timing->materialized_seconds > 0;
    print_row({layer->about("layer"), error_text(job.check->o_error),
               error_text(job.check->o_reference_error), error_text(job.check->lse_error),
               seconds_text(job.timing->library_seconds),
               timed ? seconds_text(job.timing->materialized_seconds) : "-",
               timed ? factor_text(job.timing->materialized_seconds / job.timing->library_seconds) : "-"});
    std::cout.flush();
    ok = ok && job.check->ok();
  }
  std::cout << "\nErrors are the largest against float64 attention; all are "
            << (ok ? "within the accuracy contract.\n" : "NOT within the accuracy contract.\n")
            << "*  the largest error of standard attention: float32, probabilities rounded to V's type\n"
            << "** this tool's own attention with a stored score matrix: plain vectorised C++, float32, "
            << job.timing->threads << " CPU threads\n\nMemory    "
            << bytes_text(static_cast<double>(job.plan.materialized_bytes))
            << " of scores and probabilities never stored; workspace "
            << bytes_text(static_cast<double>(job.plan.workspace_size)) << "\n";
  if (!ok) throw Failure("a result is beyond the accuracy contract");
  return kExitOk;
}

}  // namespace

void add_demo_command(CLI::App &app, Action *action) {
  CLI::App *command =
      app.add_subcommand("demo", "Run a model's captured layers: error, time and memory of each");
  const auto arguments = std::make_shared<DemoArguments>();
  command
      ->add_option("directory", arguments->directory,
                   "Of .safetensors files, one a layer, as in tests/data/smollm2")
      ->required();
  command->add_option("--backend", arguments->backend, "Where to compute")
      ->check(CLI::IsMember({"auto", "cpu", "cuda", "hip"}))
      ->capture_default_str();
  command->add_option("--device", arguments->device, "Which device of the backend [0]")->type_name("N");
  command->add_option("--threads", arguments->threads, "CPU threads [all this process may use]")
      ->type_name("N");
  command->footer("Example:\n  flashattn demo tests/data/smollm2");
  command->callback([=] { *action = [=] { return demo(*arguments); }; });
}

}  // namespace flashattn::cli
