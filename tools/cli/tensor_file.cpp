// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/tensor_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tools/cli/error.h"
#include "tools/cli/npy.h"
#include "tools/cli/safetensors.h"
#include "tools/cli/text.h"

namespace flashattn::cli {

namespace {

namespace fs = std::filesystem;

enum class Format { kNpy, kSafetensors };

Format format_of(const std::string &path) {
  const std::string extension = fs::path(path).extension().string();
  if (extension == ".npy") return Format::kNpy;
  if (extension == ".safetensors") return Format::kSafetensors;
  throw InputError("the name ends in " + quoted_text(extension) +
                   "; known formats are .npy and .safetensors");
}

// Runs action; an InputError from within it gets the path in front.
template <class Action>
auto about(const std::string &path, Action action) {
  try {
    return action();
  } catch (const InputError &error) {
    throw InputError(path + ": " + error.what());
  }
}

class InputFile {
 public:
  explicit InputFile(const std::string &path) {
    std::error_code error;
    if (!fs::is_regular_file(path, error)) {
      throw InputError(error ? error.message() : std::string("is not a plain file"));
    }
    size_ = fs::file_size(path, error);
    stream_.open(path, std::ios::binary);
    if (error || !stream_) throw InputError("cannot be opened: " + std::string(std::strerror(errno)));
  }

  uint64_t size() const { return size_; }

  // At most `size` bytes from `offset` on; fewer at the file's end.
  std::string read(uint64_t offset, uint64_t size) {
    std::string bytes(std::min(size, size_ - std::min(offset, size_)), '\0');
    read_into(bytes.data(), offset, bytes.size());
    return bytes;
  }

  void read_into(void *memory, uint64_t offset, uint64_t size) {
    stream_.seekg(static_cast<std::streamoff>(offset));
    stream_.read(static_cast<char *>(memory), static_cast<std::streamsize>(size));
    if (!stream_) throw InputError("cannot be read at byte " + std::to_string(offset));
  }

 private:
  std::ifstream stream_;
  uint64_t size_ = 0;
};

Tensor read_npy(InputFile &file) {
  const NpyHeader header = parse_npy_header(file.read(0, kNpyMaxHeader + 12), file.size());
  Tensor tensor(header.element, header.shape);
  file.read_into(tensor.data(), header.data_begin, static_cast<uint64_t>(tensor.byte_size()));
  return tensor;
}

struct OpenSafetensors {
  SafetensorsHeader header;
  uint64_t data_begin;
};

OpenSafetensors open_safetensors(InputFile &file) {
  const uint64_t size = safetensors_header_size(file.read(0, kSafetensorsPrefix), file.size());
  const uint64_t data_begin = kSafetensorsPrefix + size;
  return {parse_safetensors_header(file.read(kSafetensorsPrefix, size), file.size() - data_begin),
          data_begin};
}

Tensor read_safetensors(InputFile &file, const std::string &name, bool name_given) {
  const auto [header, data_begin] = open_safetensors(file);
  const SafetensorsEntry *entry = nullptr;
  for (const SafetensorsEntry &candidate : header.entries) {
    if (candidate.name == name || (!name_given && header.entries.size() == 1)) entry = &candidate;
  }
  if (entry == nullptr) {
    constexpr size_t kMostNames = 8;
    std::string names;
    for (size_t i = 0; i < header.entries.size() && i < kMostNames; ++i) {
      names += (i > 0 ? ", " : "") + quoted_text(header.entries[i].name);
    }
    if (header.entries.size() > kMostNames) names += ", ...";
    throw InputError("has no tensor " + quoted_text(name) + "; it has " + (names.empty() ? "none" : names));
  }
  if (!entry->element) {
    throw InputError("tensor " + quoted_text(entry->name) + ": dtype is " + entry->dtype +
                     "; readable are F32, F16, BF16, U8 and BOOL");
  }
  Tensor tensor(*entry->element, entry->shape);
  file.read_into(tensor.data(), data_begin + entry->begin, entry->end - entry->begin);
  return tensor;
}

std::string header_of(const OutputFile &file) {
  if (format_of(file.path) == Format::kSafetensors) return make_safetensors_header(file.tensors);
  const Tensor &tensor = *file.tensors.at(0).second;
  return make_npy_header(tensor.element(), tensor.shape());
}

// A complete file under a temporary name beside its final one, removed unless committed.
class PendingFile {
 public:
  explicit PendingFile(const OutputFile &file) {
    // Through a symbolic link to the file it names, as an ordinary write would go.
    std::error_code error;
    const fs::path resolved = fs::canonical(file.path, error);
    final_ = error ? file.path : resolved.string();
    temporary_ = final_ + ".XXXXXX";
    const int descriptor = mkstemp(temporary_.data());
    if (descriptor < 0) fail("cannot be created");
    try {
      write(descriptor, header_of(file));
      for (const auto &[name, tensor] : file.tensors) {
        write(descriptor,
              {static_cast<const char *>(tensor->data()), static_cast<size_t>(tensor->byte_size())});
      }
      const mode_t mask = umask(0);
      umask(mask);
      if (fchmod(descriptor, 0666 & ~mask) != 0) fail("cannot be given its permissions");
    } catch (...) {
      close(descriptor);
      unlink(temporary_.c_str());
      throw;
    }
    if (close(descriptor) != 0) {
      unlink(temporary_.c_str());
      fail("cannot be written");
    }
  }
  ~PendingFile() {
    if (!temporary_.empty()) unlink(temporary_.c_str());
  }
  PendingFile(const PendingFile &) = delete;
  PendingFile &operator=(const PendingFile &) = delete;

  void commit() {
    if (std::rename(temporary_.c_str(), final_.c_str()) != 0) fail("cannot be put in place");
    temporary_.clear();
  }

 private:
  [[noreturn]] void fail(const char *what) const {
    throw Failure(final_ + ": " + what + ": " + std::strerror(errno));
  }

  void write(int descriptor, std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("cannot be written");
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }

  std::string final_;
  std::string temporary_;
};

}  // namespace

Tensor read_tensor(const std::string &path, const std::string &name, bool name_given) {
  return about(path, [&] {
    const Format format = format_of(path);
    InputFile file(path);
    return format == Format::kNpy ? read_npy(file) : read_safetensors(file, name, name_given);
  });
}

std::map<std::string, std::string> read_metadata(const std::string &path) {
  return about(path, [&] {
    InputFile file(path);
    return open_safetensors(file).header.metadata;
  });
}

void check_output(const std::string &path, Element element) {
  about(path, [&] {
    if (format_of(path) == Format::kNpy) make_npy_header(element, {});
    std::error_code error;
    // Renaming onto a device or a pipe would replace it.
    if (fs::exists(path, error) && !fs::is_regular_file(path, error)) throw InputError("is not a plain file");
    const fs::path directory = fs::absolute(path).parent_path();
    if (!fs::is_directory(directory, error)) throw InputError("its directory does not exist");
  });
}

void write_files(const std::vector<OutputFile> &files) {
  std::vector<std::unique_ptr<PendingFile>> pending;
  pending.reserve(files.size());
  for (const OutputFile &file : files) pending.push_back(std::make_unique<PendingFile>(file));
  for (const auto &file : pending) file->commit();
}

}  // namespace flashattn::cli
