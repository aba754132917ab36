// SPDX-License-Identifier: Apache-2.0
// Attention of a real layer as an engine runs it: the whole prompt at once, then its last token again as a decode step
// over the cache. Asked for batch-invariant results, both give the last token the same bits; and the first token, which
// sees itself only, gets exactly its V.
//
//   prefill_decode tests/data/smollm2/layer09.safetensors
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <flashattn.hpp>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using flashattn::Call;
using flashattn::Float16;
using flashattn::Problem;
using flashattn::Tensor;

constexpr int64_t kTokens = 505, kHeads = 9, kHeadsKv = 3, kDim = 64;

// A .safetensors file is the length of a JSON text in eight bytes, that text, and the data it gives offsets into.
class File {
 public:
  explicit File(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    uint64_t size = 0;
    if (!in.read(reinterpret_cast<char *>(&size), sizeof size) || size > 1000000)
      throw std::runtime_error("cannot read " + path);
    header_.resize(size);
    in.read(header_.data(), static_cast<std::streamsize>(size));
    data_.assign(std::istreambuf_iterator<char>(in), {});
  }
  // The f16 tensor of that name, count elements.
  std::vector<Float16> tensor(const std::string &name, int64_t count) const {
    const size_t entry = header_.find('"' + name + "\":");
    const std::string key = "\"data_offsets\":[";
    const size_t at = entry == std::string::npos ? entry : header_.find(key, entry);
    if (at == std::string::npos) throw std::runtime_error("no tensor " + name);
    const size_t begin = std::stoull(header_.substr(at + key.size()));
    std::vector<Float16> values(count);
    if (begin + count * sizeof(Float16) > data_.size()) throw std::runtime_error(name + " is too short");
    std::memcpy(values.data(), data_.data() + begin, count * sizeof(Float16));
    return values;
  }

 private:
  std::string header_;
  std::vector<char> data_;
};

void require(bool holds, const char *what) {
  if (!holds) throw std::runtime_error(what);
}

void run(const std::string &path) {
  const File file(path);
  const std::vector<Float16> q = file.tensor("q", kTokens * kHeads * kDim);
  const std::vector<Float16> k = file.tensor("k", kTokens * kHeadsKv * kDim);
  const std::vector<Float16> v = file.tensor("v", kTokens * kHeadsKv * kDim);
  std::vector<Float16> o(q.size());

  Call prefill;
  prefill.q(Tensor(q, {1, kTokens, kHeads, kDim}))
      .k(Tensor(k, {1, kTokens, kHeadsKv, kDim}))
      .v(Tensor(v, {1, kTokens, kHeadsKv, kDim}))
      .o(Tensor(o, {1, kTokens, kHeads, kDim}));
  const Problem problem = Problem(prefill).causal().batch_invariant();
  const flashattn::Handle handle(flashattn::Options().backend(flashattn::Backend::kCpu));
  const flashattn::Plan plan = handle.plan(problem);
  flashattn::Workspace workspace = plan.workspace();
  const auto begin = std::chrono::steady_clock::now();
  plan.forward(prefill, workspace);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  for (int64_t h = 0; h < kHeads; ++h) {
    require(std::memcmp(&o[h * kDim], &v[h / (kHeads / kHeadsKv) * kDim], kDim * sizeof(Float16)) == 0,
            "the first token must get its own V");
  }

  // The last token alone, over the same cache.
  const std::vector<Float16> last(q.end() - kHeads * kDim, q.end());
  std::vector<Float16> decoded(last.size());
  Call decode;
  decode.q(Tensor(last, {1, 1, kHeads, kDim}))
      .k(Tensor(k, {1, kTokens, kHeadsKv, kDim}))
      .v(Tensor(v, {1, kTokens, kHeadsKv, kDim}))
      .o(Tensor(decoded, {1, 1, kHeads, kDim}));
  plan.forward(decode, workspace);
  require(std::memcmp(decoded.data(), &o[o.size() - decoded.size()], decoded.size() * sizeof(Float16)) == 0,
          "prefill and decode must give the same bits");
  std::printf("%lld tokens, %lld heads over %lld, %s: %.1f ms; first token and decode step as they must be\n",
              static_cast<long long>(kTokens), static_cast<long long>(kHeads),
              static_cast<long long>(kHeadsKv), plan.info().kernel, time.count());
}

}  // namespace

int main(int argc, char **argv) {
  try {
    run(argc > 1 ? argv[1] : "tests/data/smollm2/layer09.safetensors");
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
