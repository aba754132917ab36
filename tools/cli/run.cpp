// SPDX-License-Identifier: Apache-2.0
// flashattn run: Q, K, V from files to an O file.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/cli/command.h"
#include "tools/cli/error.h"
#include "tools/cli/job.h"
#include "tools/cli/tensor_file.h"
#include "tools/cli/text.h"

namespace flashattn::cli {

namespace {

// A tensor on the command line: --q FILE, --q-name NAME.
struct TensorArgument {
  explicit TensorArgument(std::string tensor_name) : name(std::move(tensor_name)) {}
  std::string file;
  std::string name;
  CLI::Option *name_option = nullptr;

  Tensor read(const std::string &default_file = "") const {
    return read_tensor(file.empty() ? default_file : file, name, name_option->count() > 0);
  }
};

struct RunArguments {
  std::string input;
  TensorArgument q{"q"}, k{"k"}, v{"v"}, bias{"bias"}, alibi{"alibi"}, sinks{"sinks"};
  std::string layout = "bshd";
  bool causal = false;
  std::vector<int32_t> window;
  float softcap = 0;
  float scale = 0;
  int32_t diag_offset = 0;
  std::string backend = "auto";
  int32_t device = 0;
  int32_t threads = 0;
  std::string kernel;
  int32_t num_splits = 0;
  bool batch_invariant = false;
  std::string dtype_o;
  std::string out;
  std::string lse;
  bool check = false;
  bool time = false;
  bool json = false;
};

void add_tensor(CLI::App *command, TensorArgument *argument, const std::string &what, const char *group) {
  const std::string flag = "--" + argument->name;
  command->add_option(flag, argument->file, what)->type_name("FILE")->group(group);
  argument->name_option = command
                              ->add_option(flag + "-name", argument->name,
                                           "Its name in a .safetensors file [" + argument->name + "]")
                              ->type_name("NAME")
                              ->group(group);
}

// In the library's structs 0 stands for "not given", so it cannot be asked for, nor what f32 rounds to it.
std::string refuse_zero(const std::string &text) {
  char *end = nullptr;
  const float value = std::strtof(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0' || value != 0) return "";
  return "is " + text + ", which is 0 in f32; leave the option out for its default";
}

void add_arguments(CLI::App *command, RunArguments *a) {
  const char *inputs = "Inputs";
  command->add_option("-i,--input", a->input, "A .safetensors file with q, k and v")
      ->type_name("FILE")
      ->group(inputs);
  add_tensor(command, &a->q, "Q: [S,H,D] or [B,S,H,D]; f32, f16 or (.safetensors) bf16", inputs);
  add_tensor(command, &a->k, "K, with as many heads as V, a divisor of Q's", inputs);
  add_tensor(command, &a->v, "V; its last dimension may differ from K's", inputs);
  command
      ->add_option("--layout", a->layout,
                   "Order of the dimensions of Q, K, V and O; the batch may be missing")
      ->check(CLI::IsMember({"bshd", "bhsd"}))
      ->capture_default_str()
      ->group(inputs);

  const char *problem = "What is computed";
  command->add_flag("--causal", a->causal, "Query i sees key j when j <= i + n_k - n_q + diag_offset")
      ->group(problem);
  command->add_option("--window", a->window, "Keys to the left and right of the diagonal; -1 is unbounded")
      ->delimiter(',')
      ->expected(2)
      ->type_name("L,R")
      ->group(problem);
  command->add_option("--diag-offset", a->diag_offset, "Moves the diagonal [0]")
      ->type_name("N")
      ->group(problem);
  command->add_option("--scale", a->scale, "Scale of the scores [1/sqrt(head dimension)]")
      ->type_name("X")
      ->check(refuse_zero)
      ->group(problem);
  command->add_option("--softcap", a->softcap, "c * tanh(score / c) [off]")
      ->type_name("C")
      ->check(refuse_zero)
      ->group(problem);
  add_tensor(command, &a->bias,
             "Added to the scores, [Sq,Sk], [H,Sq,Sk] or [B,H,Sq,Sk], 1 broadcasts; u8: a mask", problem);
  add_tensor(command, &a->alibi, "ALiBi slopes, f32 [H] or [B,H]", problem);
  add_tensor(command, &a->sinks, "Sinks, f32 [H] or [B,H]", problem);

  const char *how = "How";
  command->add_option("--backend", a->backend, "Where to compute")
      ->check(CLI::IsMember({"auto", "cpu", "cuda", "hip"}))
      ->capture_default_str()
      ->group(how);
  command->add_option("--device", a->device, "Which device of the backend [0]")->type_name("N")->group(how);
  command->add_option("--threads", a->threads, "CPU threads [all this process may use]")
      ->type_name("N")
      ->group(how);
  command->add_option("--kernel", a->kernel, "Force a kernel by the name 'flashattn info' shows")
      ->type_name("NAME")
      ->group(how);
  command->add_option("--num-splits", a->num_splits, "KV splits [the library chooses]")
      ->type_name("N")
      ->group(how);
  command
      ->add_flag("--batch-invariant", a->batch_invariant, "Bits of a row do not depend on batch or lengths")
      ->group(how);

  const char *outputs = "Outputs";
  command->add_option("-o,--out", a->out, "O, ordered as Q; .npy or .safetensors (tensor o)")
      ->type_name("FILE")
      ->group(outputs);
  command->add_option("--lse", a->lse, "LSE, f32 [B,H,S] (tensor lse; may be the .safetensors file of O)")
      ->type_name("FILE")
      ->group(outputs);
  command->add_option("--dtype-o", a->dtype_o, "Element type of O [Q's]")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->group(outputs);
  command
      ->add_flag("--check", a->check,
                 "Compare with float64 attention; exit code 1 beyond the accuracy contract")
      ->group(outputs);
  command->add_flag("--time", a->time, "Median time, beside attention with a stored score matrix")
      ->group(outputs);
  command->add_flag("--json", a->json, "Print one JSON object")->group(outputs);
  command->footer(
      "Examples:\n"
      "  flashattn run --q q.npy --k k.npy --v v.npy --causal -o o.npy\n"
      "  flashattn run -i layer00.safetensors --causal --check --time\n"
      "  flashattn run -i qkv.safetensors --layout bhsd --window 1023,0 --sinks s.npy -o o.safetensors --lse "
      "o.safetensors");
}

BiasView bias_view(const Tensor &tensor, const Attention &a) {
  const Shape &shape = tensor.shape();
  const int64_t wanted[] = {a.q.batch, a.q.heads, a.q.seqlen, a.k.seqlen};
  const char *names[] = {"the batch", "the number of query heads", "the query length", "the key length"};
  if (shape.size() < 2 || shape.size() > 4) {
    throw InputError("bias: shape is " + shape_text(shape) + "; it must have 2, 3 or 4 dimensions");
  }
  int64_t strides[4] = {0, 0, 0, 0};
  int64_t stride = 1;
  for (size_t back = 1; back <= shape.size(); ++back) {
    const int64_t extent = shape[shape.size() - back];
    const size_t axis = 4 - back;
    if (extent != wanted[axis] && extent != 1) {
      throw InputError("bias: shape is " + shape_text(shape) + "; dimension " +
                       std::to_string(shape.size() - back) + " must be 1 or " + names[axis] + ", " +
                       std::to_string(wanted[axis]));
    }
    strides[axis] = extent == 1 ? 0 : stride;
    stride *= extent;
  }
  return {&tensor, strides[0], strides[1], strides[2], strides[3]};
}

PerHeadView per_head_view(const char *name, const Tensor &tensor, const Attention &a) {
  const Shape &shape = tensor.shape();
  const std::string prefix = std::string(name) + ": ";
  if (tensor.element() != Element::kF32) {
    throw InputError(prefix + "element type is " + element_name(tensor.element()) + "; it must be f32");
  }
  if (shape != Shape{a.q.heads} && shape != Shape{a.q.batch, a.q.heads}) {
    throw InputError(prefix + "shape is " + shape_text(shape) + "; it must be " + shape_text({a.q.heads}) +
                     " or " + shape_text({a.q.batch, a.q.heads}));
  }
  return {&tensor, shape.size() == 2 ? a.q.heads : 0};
}

// The tensors of a run and the problem that refers to them.
struct LoadedRun {
  Tensor q, k, v, bias, alibi, sinks;
  Attention problem;
};

void load(const RunArguments &a, Layout layout, LoadedRun *run) {
  for (const TensorArgument *tensor : {&a.q, &a.k, &a.v}) {
    if (tensor->file.empty() && a.input.empty()) {
      throw InputError("no " + tensor->name + ": give --" + tensor->name + " or --input");
    }
  }
  run->q = a.q.read(a.input);
  run->k = a.k.read(a.input);
  run->v = a.v.read(a.input);
  Attention &problem = run->problem;
  problem.q = make_view("q", run->q, layout);
  problem.k = make_view("k", run->k, layout);
  problem.v = make_view("v", run->v, layout);
  if (!a.bias.file.empty()) {
    run->bias = a.bias.read();
    problem.bias = bias_view(run->bias, problem);
  }
  if (!a.alibi.file.empty()) {
    run->alibi = a.alibi.read();
    problem.alibi = per_head_view("alibi", run->alibi, problem);
  }
  if (!a.sinks.file.empty()) {
    run->sinks = a.sinks.read();
    problem.sinks = per_head_view("sinks", run->sinks, problem);
  }
  problem.scale = a.scale;
  problem.softcap = a.softcap;
  problem.causal = a.causal;
  problem.window = !a.window.empty();
  if (problem.window) {
    problem.window_left = a.window[0];
    problem.window_right = a.window[1];
  }
  problem.diag_offset = a.diag_offset;
}

bool same_file(const std::string &a, const std::string &b) {
  std::error_code error;
  if (a == b || std::filesystem::equivalent(a, b, error)) return true;
  // Files that are not there yet can only be compared by name.
  const auto resolved = [&error](const std::string &path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  };
  return !a.empty() && !b.empty() && resolved(a) == resolved(b);
}

void check_arguments(const RunArguments &a) {
  if (a.out.empty() && a.lse.empty() && !a.check && !a.time) {
    throw InputError("nothing to do: give --out, --lse, --check or --time");
  }
  for (const std::string *out : {&a.out, &a.lse}) {
    for (const std::string *in :
         {&a.input, &a.q.file, &a.k.file, &a.v.file, &a.bias.file, &a.alibi.file, &a.sinks.file}) {
      if (!out->empty() && !in->empty() && same_file(*out, *in))
        throw InputError(*out + ": is an input as well");
    }
  }
}

// What to write where; O and LSE may share a .safetensors file.
std::vector<OutputFile> output_files(const RunArguments &a, const Tensor *o, const Tensor *lse) {
  std::vector<OutputFile> files;
  if (!a.out.empty()) files.push_back({a.out, {{"o", o}}});
  if (!a.lse.empty()) {
    if (!files.empty() && same_file(a.out, a.lse)) {
      files[0].tensors.emplace_back("lse", lse);
    } else {
      files.push_back({a.lse, {{"lse", lse}}});
    }
  }
  return files;
}

void check_outputs(const RunArguments &a, Element element_o) {
  if (!a.out.empty()) check_output(a.out, element_o);
  if (!a.lse.empty()) check_output(a.lse, Element::kF32);
  if (!a.out.empty() && !a.lse.empty() && same_file(a.out, a.lse) &&
      std::filesystem::path(a.out).extension() == ".npy") {
    throw InputError(a.out + ": O and LSE cannot share a .npy file; use .safetensors or two files");
  }
}

std::string tensor_text(const View &view) {
  return std::string(element_name(view.tensor->element())) + " " + shape_text(view.tensor->shape());
}

void print_text(const Device &device, const LoadedRun &run, const JobResult &job,
                const std::vector<OutputFile> &files) {
  const auto line = [](const char *label) -> std::ostream & { return std::cout << padded(label, 12); };
  line("backend") << backend_name(device.info().backend) << " " << device.info().device << ": "
                  << device.info().name;
  if (device.info().num_threads > 0) std::cout << ", " << device.info().num_threads << " threads";
  std::cout << "\n";
  line("kernel") << job.kernel << " (KV splits: " << job.plan.num_splits << ")\n";
  for (const std::string &reason : job.reasons) line("  refused") << reason << "\n";
  line("problem") << "q " << tensor_text(run.problem.q) << ", k " << tensor_text(run.problem.k) << ", v "
                  << tensor_text(run.problem.v) << "\n";
  line("memory") << bytes_text(static_cast<double>(job.plan.workspace_size))
                 << " workspace; stored scores and "
                 << "probabilities would take "
                 << bytes_text(static_cast<double>(job.plan.materialized_bytes)) << "\n";
  if (job.check) {
    line("error") << "O " << error_text(job.check->o_error) << " (float32 attention "
                  << error_text(job.check->o_reference_error) << "), LSE " << error_text(job.check->lse_error)
                  << ", against float64: " << (job.check->ok() ? "within" : "BEYOND")
                  << " the accuracy contract\n";
  }
  if (job.timing) {
    line("time") << seconds_text(job.timing->library_seconds) << ", median of " << job.timing->samples
                 << "\n";
    line("") << (job.timing->materialized_seconds == 0
                     ? std::string("materialised attention not timed: its scores do not fit in memory")
                     : seconds_text(job.timing->materialized_seconds) +
                           " materialised attention (plain C++ float32, " +
                           std::to_string(job.timing->threads) + " CPU threads)")
             << "\n";
  }
  for (const OutputFile &file : files) line("wrote") << file.path << "\n";
}

// JSON has no infinity and no NaN.
nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

void print_json(const Device &device, const JobResult &job, const std::vector<OutputFile> &files) {
  using nlohmann::ordered_json;
  ordered_json root{{"backend", backend_name(device.info().backend)},
                    {"device", device.info().device},
                    {"device_name", device.info().name},
                    {"threads", device.info().num_threads},
                    {"kernel", job.kernel},
                    {"num_splits", job.plan.num_splits},
                    {"refused", job.reasons},
                    {"workspace_bytes", job.plan.workspace_size},
                    {"materialized_bytes", job.plan.materialized_bytes},
                    {"deterministic", job.plan.deterministic != 0},
                    {"batch_invariant", job.plan.batch_invariant != 0},
                    {"written", ordered_json::array()}};
  for (const OutputFile &file : files) root["written"].push_back(file.path);
  if (job.check) {
    root["check"] = {{"ok", job.check->ok()},
                     {"o_error", number(job.check->o_error)},
                     {"o_reference_error", number(job.check->o_reference_error)},
                     {"lse_error", number(job.check->lse_error)}};
  }
  if (job.timing) {
    root["time"] = {{"library_seconds", job.timing->library_seconds},
                    {"materialized_seconds", job.timing->materialized_seconds == 0
                                                 ? ordered_json(nullptr)
                                                 : ordered_json(job.timing->materialized_seconds)},
                    {"materialized_threads", job.timing->threads},
                    {"samples", job.timing->samples}};
  }
  std::cout << root.dump(2) << "\n";
}

int run(const RunArguments &a) {
  check_arguments(a);
  const Layout layout = a.layout == "bshd" ? Layout::kBshd : Layout::kBhsd;
  LoadedRun loaded;
  load(a, layout, &loaded);
  JobOptions options;
  options.plan.kernel = a.kernel;
  options.plan.num_splits = a.num_splits;
  options.plan.batch_invariant = a.batch_invariant;
  options.plan.element_o = a.dtype_o.empty() ? loaded.q.element() : element_of_name(a.dtype_o);
  options.check = a.check;
  options.time = a.time;
  check_outputs(a, options.plan.element_o);

  const Device device(backend_of_name(a.backend), a.device, a.threads);
  const JobResult job = run_job(device, loaded.problem, layout, options);
  const bool ok = !job.check || job.check->ok();
  const std::vector<OutputFile> files = output_files(a, &job.o, &job.lse);
  write_files(files);
  a.json ? print_json(device, job, files) : print_text(device, loaded, job, files);
  if (!ok) throw Failure("the result is beyond the accuracy contract");
  return kExitOk;
}

}  // namespace

void add_run_command(CLI::App &app, Action *action) {
  CLI::App *command =
      app.add_subcommand("run", "Compute attention on tensors from .npy or .safetensors files");
  const auto arguments = std::make_shared<RunArguments>();
  add_arguments(command, arguments.get());
  command->callback([=] { *action = [=] { return run(*arguments); }; });
}

}  // namespace flashattn::cli
