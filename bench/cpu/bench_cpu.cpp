// SPDX-License-Identifier: Apache-2.0
// The CPU backend against what the machine can do: multiply-adds per second, sgemm (OpenBLAS, when
// libopenblas.so.0 is installed) and read bandwidth. All contestants take turns within a round, and medians
// and minima over the rounds are printed as JSON.
//
//   bench_cpu [--threads N] [--rounds N] [--seqlen N] [--kernel NAME] [--only SUBSTRING]
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "flashattn.h"

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Processor time of all threads: what a run costs when others use the machine too.
double busy() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void on_threads(int threads, const std::function<void(int)> &body) {
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(body, t);
  body(0);
  for (std::thread &other : others) other.join();
}

// Something to time. work is per run, in GFLOP or GB.
struct Contestant {
  std::string name;
  std::string unit;
  double work;
  std::function<void()> run;
  std::vector<double> seconds;
  std::vector<double> busy_seconds;
};

#if defined(__x86_64__)
// Twelve independent chains of 8-lane multiply-adds: enough to fill two pipes of latency 4.
__attribute__((target("avx2,fma"))) float multiply_add_loop(int64_t iterations) {
  using Lanes = float __attribute__((vector_size(32)));
  Lanes acc[12] = {};
  const Lanes factor = acc[0] + 0.999999F;
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (Lanes &a : acc) asm volatile("vfmadd231ps %1, %1, %0" : "+x"(a) : "x"(factor));
  }
  float sum = 0.0F;
#pragma GCC unroll 12
  for (const Lanes &a : acc) sum += a[0];
  return sum;
}

Contestant multiply_adds(int threads) {
  constexpr int64_t kIterations = 2000000;
  return {"fma_peak",
          "gflop/s",
          1e-9 * 2 * 12 * 8 * kIterations * threads,
          [threads] {
            on_threads(threads, [](int) {
              volatile float sink = multiply_add_loop(kIterations);
              static_cast<void>(sink);
            });
          },
          {},
          {}};
}
#endif

// Reads 1 GiB, far more than any cache.
Contestant read_bandwidth(int threads, const std::shared_ptr<std::vector<uint64_t>> &memory) {
  return {"read",
          "gb/s",
          1e-9 * 8 * static_cast<double>(memory->size()),
          [threads, memory] {
            on_threads(threads, [&](int t) {
              const size_t share = memory->size() / static_cast<size_t>(threads) / 16 * 16;
              const uint64_t *begin = memory->data() + share * static_cast<size_t>(t);
              uint64_t sums[16] = {};
              for (size_t i = 0; i < share; i += 16) {
                for (size_t lane = 0; lane < 16; ++lane) sums[lane] ^= begin[i + lane];
              }
              volatile uint64_t sink = sums[0];
              for (const uint64_t s : sums) sink = sink ^ s;
            });
          },
          {},
          {}};
}

using Sgemm = void (*)(int, int, int, int, int, int, float, const float *, int, const float *, int, float,
                       float *, int);

// C = A B^T, n x n x n, row major.
bool add_sgemm(int threads, int n, std::vector<Contestant> *contestants) {
  // Its threads spin after a product, for longer than a contestant may take, on the core that is the next one's.
  setenv("OPENBLAS_THREAD_TIMEOUT", "4", 0);  // log2 of cycles, read when it is loaded
  void *blas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (blas == nullptr) return false;
  const auto sgemm = reinterpret_cast<Sgemm>(dlsym(blas, "cblas_sgemm"));
  const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(blas, "openblas_set_num_threads"));
  if (sgemm == nullptr || set_threads == nullptr) return false;
  set_threads(threads);
  auto matrices = std::make_shared<std::vector<float>>(3 * static_cast<size_t>(n) * n, 0.5F);
  contestants->push_back({"sgemm_" + std::to_string(n),
                          "gflop/s",
                          2e-9 * n * n * n,
                          [=] {
                            float *a = matrices->data();
                            float *b = a + static_cast<size_t>(n) * n;
                            float *c = b + static_cast<size_t>(n) * n;
                            constexpr int kRowMajor = 101;
                            constexpr int kNoTranspose = 111;
                            constexpr int kTranspose = 112;
                            sgemm(kRowMajor, kNoTranspose, kTranspose, n, n, n, 1.0F, a, n, b, n, 0.0F, c, n);
                          },
                          {},
                          {}});
  return true;
}

void check(flashattn_status_t status) {
  if (status == FLASHATTN_STATUS_OK) return;
  std::fprintf(stderr, "%s\n", flashattn_last_error());
  std::exit(1);
}

// One attention problem with its tensors. Contiguous [batch, seqlen, heads, dim].
class Attention {
 public:
  Attention(flashattn_handle_t *handle, const flashattn_problem_t &problem) : problem_(problem) {
    const size_t element = problem.dtype_q == FLASHATTN_DTYPE_F32 ? 4 : 2;
    const auto rows_q = static_cast<size_t>(problem.max_batch) * problem.max_seqlen_q * problem.num_heads_q;
    const auto rows_kv =
        static_cast<size_t>(problem.max_batch) * problem.max_seqlen_kv * problem.num_heads_kv;
    const auto dim = static_cast<size_t>(problem.head_dim);
    fill(&q_, rows_q * dim, element);
    fill(&k_, rows_kv * dim, element);
    fill(&v_, rows_kv * dim, element);
    o_.resize(rows_q * dim * element);
    call_.batch = problem.max_batch;
    call_.seqlen_q = problem.max_seqlen_q;
    call_.seqlen_kv = problem.max_seqlen_kv;
    call_.q.data = q_.data();
    call_.k.data = k_.data();
    call_.v.data = v_.data();
    call_.o.data = o_.data();
    check(flashattn_call_contiguous(&problem_, &call_));
    check(flashattn_plan_create(handle, &problem_, &plan_));
    flashattn_plan_info_t info{};
    info.struct_size = sizeof info;
    check(flashattn_plan_info(plan_, &info));
    kernel_ = info.kernel;
    workspace_size_ = info.workspace_size;
    workspace_.reset(static_cast<char *>(std::aligned_alloc(64, (workspace_size_ + 63) / 64 * 64)));
    check(flashattn_workspace_init(plan_, workspace_.get(), workspace_size_, nullptr));
  }
  ~Attention() { flashattn_plan_destroy(plan_); }
  Attention(const Attention &) = delete;
  Attention &operator=(const Attention &) = delete;

  void run() { check(flashattn_forward(plan_, &call_, workspace_.get(), workspace_size_, nullptr)); }
  const std::string &kernel() const { return kernel_; }
  // What has to be computed: 4 S_q S_kv D per head, half of it under a causal mask.
  double gflop() const {
    return 4e-9 * problem_.max_batch * problem_.num_heads_q * problem_.max_seqlen_q * problem_.max_seqlen_kv *
           problem_.head_dim * (problem_.causal != 0 ? 0.5 : 1.0);
  }
  double gigabytes() const { return 1e-9 * static_cast<double>(k_.size() + v_.size()); }

 private:
  // Uniform in [-1, 1) about a mean of 0.1.
  static void fill(std::vector<char> *tensor, size_t count, size_t element) {
    tensor->resize(count * element);
    std::minstd_rand random(1);
    for (size_t i = 0; i < count; ++i) {
      const float value = static_cast<float>(random()) / 0x1p30F - 0.9F;
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      if (element == 2) bits >>= 16;  // bf16 by cutting off
      std::memcpy(tensor->data() + i * element, &bits, element);
    }
  }
  struct Free {
    void operator()(char *memory) const { std::free(memory); }
  };

  flashattn_problem_t problem_;
  flashattn_call_t call_ = FLASHATTN_CALL_INIT;
  flashattn_plan_t *plan_ = nullptr;
  std::vector<char> q_;
  std::vector<char> k_;
  std::vector<char> v_;
  std::vector<char> o_;
  std::unique_ptr<char, Free> workspace_;
  size_t workspace_size_ = 0;
  std::string kernel_;
};

struct Arguments {
  int threads = 2;
  int rounds = 7;
  int seqlen = 4096;
  std::string kernel;
  std::string only;  // a substring of the contestants' names
};

Arguments parse(int argc, char **argv) {
  Arguments arguments;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--threads") arguments.threads = std::atoi(argv[i + 1]);
    if (flag == "--rounds") arguments.rounds = std::atoi(argv[i + 1]);
    if (flag == "--seqlen") arguments.seqlen = std::atoi(argv[i + 1]);
    if (flag == "--kernel") arguments.kernel = argv[i + 1];
    if (flag == "--only") arguments.only = argv[i + 1];
  }
  return arguments;
}

flashattn_problem_t make_problem(const Arguments &arguments, int32_t dtype, int dim) {
  flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  problem.dtype_q = problem.dtype_kv = dtype;
  problem.head_dim = dim;
  problem.max_batch = 1;
  std::snprintf(problem.kernel, sizeof problem.kernel, "%s", arguments.kernel.c_str());
  return problem;
}

}  // namespace

int main(int argc, char **argv) {
  const Arguments arguments = parse(argc, argv);
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_CPU;
  options.num_threads = arguments.threads;
  flashattn_handle_t *handle = nullptr;
  check(flashattn_create(&options, &handle));

  std::vector<Contestant> contestants;
  std::vector<std::unique_ptr<Attention>> problems;
  const auto wanted = [&](const std::string &name) { return name.find(arguments.only) != std::string::npos; };
  const auto add = [&](const std::string &name, const flashattn_problem_t &problem, bool bandwidth) {
    if (!wanted(name)) return;
    problems.push_back(std::make_unique<Attention>(handle, problem));
    Attention *attention = problems.back().get();
    contestants.push_back({name,
                           bandwidth ? "gb/s" : "gflop/s",
                           bandwidth ? attention->gigabytes() : attention->gflop(),
                           [attention] { attention->run(); },
                           {},
                           {}});
  };
#if defined(__x86_64__)
  contestants.push_back(multiply_adds(arguments.threads));
#endif
  add_sgemm(arguments.threads, 2048, &contestants);
  for (const int32_t dtype : {FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_BF16}) {
    const std::string type = dtype == FLASHATTN_DTYPE_F32 ? "f32" : "bf16";
    for (const int dim : {64, 128}) {
      for (const int32_t causal : {0, 1}) {
        flashattn_problem_t problem = make_problem(arguments, dtype, dim);
        problem.num_heads_q = problem.num_heads_kv = 2;
        problem.max_seqlen_q = problem.max_seqlen_kv = arguments.seqlen;
        problem.causal = causal;
        add("attention_" + type + "_d" + std::to_string(dim) + (causal != 0 ? "_causal" : "_full"), problem,
            false);
      }
    }
  }
  if (wanted("decode")) {
    contestants.push_back(
        read_bandwidth(arguments.threads, std::make_shared<std::vector<uint64_t>>(1 << 26, 1)));
  }
  for (const int32_t dtype : {FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_BF16}) {
    flashattn_problem_t problem = make_problem(arguments, dtype, 128);
    problem.num_heads_q = 32;
    problem.num_heads_kv = 8;
    problem.max_seqlen_q = 1;
    problem.max_seqlen_kv = 32768;
    problem.causal = 1;
    add(std::string("decode_") + (dtype == FLASHATTN_DTYPE_F32 ? "f32" : "bf16") + "_32k_gqa4_d128", problem,
        true);
  }
  {
    flashattn_problem_t problem = make_problem(arguments, FLASHATTN_DTYPE_F32, 64);
    problem.num_heads_q = problem.num_heads_kv = 1;
    problem.max_seqlen_q = problem.max_seqlen_kv = 1;
    add("tiny_call", problem, false);
  }

  for (int round = -1; round < arguments.rounds; ++round) {
    for (Contestant &contestant : contestants) {
      const int repeats = contestant.work < 1e-5 ? 10000 : 1;
      const double begin = now();
      const double begin_busy = busy();
      for (int r = 0; r < repeats; ++r) contestant.run();
      const double seconds = (now() - begin) / repeats;
      const double busy_seconds = (busy() - begin_busy) / repeats;
      if (round < 0) continue;  // warms up
      contestant.seconds.push_back(seconds);
      contestant.busy_seconds.push_back(busy_seconds);
    }
  }

  std::printf("{\"threads\": %d, \"rounds\": %d, \"kernel\": \"%s\", \"results\": [\n", arguments.threads,
              arguments.rounds, problems.empty() ? "" : problems.front()->kernel().c_str());
  for (size_t i = 0; i < contestants.size(); ++i) {
    Contestant &contestant = contestants[i];
    std::sort(contestant.seconds.begin(), contestant.seconds.end());
    const double median = contestant.seconds[contestant.seconds.size() / 2];
    const double best = contestant.seconds.front();
    std::sort(contestant.busy_seconds.begin(), contestant.busy_seconds.end());
    const double busy_median =
        contestant.busy_seconds[contestant.busy_seconds.size() / 2] / arguments.threads;
    std::printf(
        "  {\"name\": \"%s\", \"unit\": \"%s\", \"median\": %.2f, \"best\": %.2f, \"by_cpu_time\": %.2f, "
        "\"median_us\": %.3f, "
        "\"best_us\": %.3f}%s\n",
        contestant.name.c_str(), contestant.unit.c_str(), contestant.work / median, contestant.work / best,
        contestant.work / busy_median, median * 1e6, best * 1e6, i + 1 < contestants.size() ? "," : "");
  }
  std::printf("]}\n");
  problems.clear();
  flashattn_destroy(handle);
  return 0;
}
