// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/tensor_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "tests/cli/message.h"

using namespace flashattn::cli;
namespace fs = std::filesystem;

namespace {

// A directory of its own, removed with what is in it.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (fs::temp_directory_path() / "flashattn.XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Scratch() { fs::remove_all(path_); }
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  std::string operator/(const std::string &name) const { return (path_ / name).string(); }
  size_t count() const { return static_cast<size_t>(std::distance(fs::directory_iterator(path_), {})); }

 private:
  fs::path path_;
};

Tensor numbered(Element element, const Shape &shape) {
  Tensor tensor(element, shape);
  auto *bytes = static_cast<unsigned char *>(tensor.data());
  for (int64_t i = 0; i < tensor.byte_size(); ++i) bytes[i] = static_cast<unsigned char>(37 * i + 11);
  return tensor;
}

bool equal(const Tensor &a, const Tensor &b) {
  return a.element() == b.element() && a.shape() == b.shape() &&
         (a.byte_size() == 0 || std::memcmp(a.data(), b.data(), static_cast<size_t>(a.byte_size())) == 0);
}

void write_text(const std::string &path, const std::string &text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string read_text(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

TEST_CASE("tensors survive a round trip bit for bit, NaN included") {
  const Scratch scratch;
  const Tensor f32 = numbered(Element::kF32, {3, 5, 7});
  const Tensor f16 = numbered(Element::kF16, {65536});  // every pattern of f16, NaN payloads too
  const Tensor bf16 = numbered(Element::kBf16, {2, 0, 4});
  const Tensor u8 = numbered(Element::kU8, {9});
  const std::string all = scratch / "all.safetensors";
  write_files({{all, {{"a", &f32}, {"b", &f16}, {"c", &bf16}, {"d", &u8}}},
               {scratch / "a.npy", {{"a", &f32}}},
               {scratch / "b.npy", {{"b", &f16}}},
               {scratch / "d.npy", {{"d", &u8}}}});
  CHECK(equal(read_tensor(all, "a", true), f32));
  CHECK(equal(read_tensor(all, "b", true), f16));
  CHECK(equal(read_tensor(all, "c", true), bf16));
  CHECK(equal(read_tensor(all, "d", true), u8));
  CHECK(equal(read_tensor(scratch / "a.npy", "ignored", true), f32));
  CHECK(equal(read_tensor(scratch / "b.npy", "", false), f16));
  CHECK(equal(read_tensor(scratch / "d.npy", "", false), u8));
  CHECK(scratch.count() == 4);
}

TEST_CASE("a .safetensors file with one tensor gives it under any default name, not under a given one") {
  const Scratch scratch;
  const Tensor tensor = numbered(Element::kF32, {3});
  const std::string path = scratch / "one.safetensors";
  write_files({{path, {{"weight", &tensor}}}});
  CHECK(equal(read_tensor(path, "q", false), tensor));
  CHECK(message_of([&] { read_tensor(path, "q", true); }) == path + ": has no tensor 'q'; it has 'weight'");
}

TEST_CASE("reading: messages begin with the path") {
  const Scratch scratch;
  const std::string npy = scratch / "bad.npy";
  write_text(npy, "hello");
  CHECK(message_of([&] { read_tensor(npy, "", false); }) ==
        npy + ": magic is not \\x93NUMPY; this is no .npy file");
  const std::string cut = scratch / "cut.safetensors";
  write_text(cut, std::string("\x10\0\0\0\0\0\0\0{}", 10));
  CHECK(message_of([&] { read_tensor(cut, "q", true); }) ==
        cut + ": header length is 16; the file has only 2 bytes after it");
  const std::string int64 = scratch / "int64.safetensors";
  const std::string json = R"({"q":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})";
  write_text(int64,
             std::string(1, static_cast<char>(json.size())) + std::string(7, '\0') + json + "12345678");
  CHECK(message_of([&] { read_tensor(int64, "q", true); }) ==
        int64 + ": tensor 'q': dtype is I64; readable are F32, F16, BF16, U8 and BOOL");
  CHECK(message_of([&] { read_tensor(scratch / "none.npy", "", false); }) ==
        scratch / "none.npy: No such file or directory");
  CHECK(message_of([] { read_tensor("q.txt", "", false); }) ==
        "q.txt: the name ends in '.txt'; known formats are .npy and .safetensors");
  fs::create_directory(scratch / "dir.npy");
  CHECK(message_of([&] { read_tensor(scratch / "dir.npy", "", false); }) ==
        scratch / "dir.npy: is not a plain file");
}

TEST_CASE("writing: outputs are checked before the work") {
  const Scratch scratch;
  CHECK(message_of([&] { check_output(scratch / "o.npy", Element::kF16); }).empty());
  CHECK(message_of([&] { check_output("o.npy", Element::kF32); }).empty());
  CHECK(message_of([&] { check_output(scratch / "o.npy", Element::kBf16); }).find("has no bf16") !=
        std::string::npos);
  CHECK(message_of([&] { check_output(scratch / "o.bin", Element::kF32); }).find("known formats") !=
        std::string::npos);
  CHECK(message_of([&] {
          check_output(scratch / "no/o.npy", Element::kF32);
        }).find("its directory does not exist") != std::string::npos);
  const std::string pipe = scratch / "pipe.npy";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(message_of([&] { check_output(pipe, Element::kF32); }) == pipe + ": is not a plain file");
}

TEST_CASE("writing: when one file of two cannot be written, neither changes and nothing is left behind") {
  const Scratch scratch;
  const Tensor tensor = numbered(Element::kF32, {3});
  const std::string path = scratch / "o.npy";
  write_text(path, "before");
  CHECK_THROWS_AS(write_files({{path, {{"o", &tensor}}}, {scratch / "no/lse.npy", {{"lse", &tensor}}}}),
                  Failure);
  CHECK(read_text(path) == "before");
  CHECK(scratch.count() == 1);
}

TEST_CASE("writing: goes through a symbolic link and leaves ordinary permissions") {
  const Scratch scratch;
  const Tensor tensor = numbered(Element::kF32, {3});
  write_text(scratch / "target.npy", "before");
  fs::create_symlink("target.npy", scratch / "link.npy");
  const mode_t mask = umask(022);
  write_files({{scratch / "link.npy", {{"o", &tensor}}}});
  umask(mask);
  CHECK(fs::is_symlink(scratch / "link.npy"));
  CHECK(equal(read_tensor(scratch / "target.npy", "", false), tensor));
  CHECK(fs::status(scratch / "target.npy").permissions() == static_cast<fs::perms>(0644));
}
