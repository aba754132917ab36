// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gcn/disassemble.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace flashattn::gcn {
namespace {

// A file that is gone when this is.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string &contents) {
    const char *directory = std::getenv("TMPDIR");
    path_ = std::string(directory != nullptr ? directory : "/tmp") + "/flashattn-gcn-XXXXXX";
    const int file = mkstemp(path_.data());
    if (file < 0) throw std::runtime_error("cannot create " + path_);
    size_t written = 0;
    while (written < contents.size()) {
      const ssize_t n = ::write(file, contents.data() + written, contents.size() - written);
      if (n <= 0) break;
      written += static_cast<size_t>(n);
    }
    close(file);
    if (written != contents.size()) throw std::runtime_error("cannot write " + path_);
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;

  const std::string &path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

std::string disassemble(const std::string &image, const std::string &architecture,
                        const std::string &objdump) {
  const TemporaryFile file(image);
  const std::string command = "'" + objdump + "' -d --mcpu=" + architecture + " '" + file.path() + "'";
  FILE *pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::string text;
  std::array<char, 65536> buffer;
  size_t read = 0;
  while ((read = fread(buffer.data(), 1, buffer.size(), pipe)) > 0) text.append(buffer.data(), read);
  if (pclose(pipe) != 0) throw std::runtime_error("failed: " + command);
  return text;
}

}  // namespace flashattn::gcn
