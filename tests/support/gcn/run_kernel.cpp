// SPDX-License-Identifier: Apache-2.0
// gcn_run: runs one kernel of any gfx9 code object on the interpreter, on files. See kUsage.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/gcn/machine.h"
#include "tests/support/gcn/trap.h"

namespace flashattn::gcn {
namespace {

constexpr const char *kUsage =
    R"(usage: gcn_run [options] CODE_OBJECT KERNEL [ARGUMENT...]
       gcn_run --list CODE_OBJECT

Runs KERNEL with every access checked and prints what stopped it, or what it executed.
ARGUMENTs, in the order of the kernel's parameters, each placed at the offset the code object's metadata names:
  in:FILE         pointer to a copy of FILE, read-only
  out:FILE:BYTES  pointer to BYTES bytes of 0xff, written to FILE afterwards
  inout:FILE      pointer to a copy of FILE, written back afterwards
  i32:N  i64:N  f32:X
  raw:FILE        the bytes of FILE by value (a struct); pointers inside are not translated
Options:
  --grid X[,Y[,Z]]   workgroups, 1 by default
  --block X[,Y[,Z]]  work items, 64 by default
  --lds BYTES        dynamic LDS
  --seed N           order of waves; --quantum N: turns of at most N instructions
  --eager            memory results arrive at once
  --limit N          stop after N wave-instructions
  --counts           executed instructions by mnemonic
  --list             kernels and instructions that are not known
)";

struct Buffer {
  std::vector<uint8_t> bytes;
  std::string output;  // file, or ""
  bool writable = false;
};

struct Request {
  std::string path;
  std::string kernel;
  std::vector<std::string> arguments;
  Launch launch;
  MachineOptions options;
  bool counts = false;
  bool list = false;
};

std::vector<uint8_t> read_file(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::array<uint32_t, 3> dimensions(const std::string &text) {
  std::array<uint32_t, 3> value{1, 1, 1};
  if (std::sscanf(text.c_str(), "%u,%u,%u", &value[0], &value[1], &value[2]) < 1) {
    throw std::runtime_error("not a size: " + text);
  }
  return value;
}

Request parse(const std::vector<std::string> &words) {
  Request request;
  std::vector<std::string> positional;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string &word = words[i];
    const auto value = [&]() -> const std::string & {
      if (i + 1 >= words.size()) throw std::runtime_error(word + " needs a value");
      return words[++i];
    };
    if (word == "--grid") {
      request.launch.grid = dimensions(value());
    } else if (word == "--block") {
      request.launch.block = dimensions(value());
    } else if (word == "--lds") {
      request.launch.dynamic_lds_bytes = static_cast<uint32_t>(std::stoul(value()));
    } else if (word == "--seed") {
      request.options.seed = std::stoull(value());
    } else if (word == "--quantum") {
      request.options.quantum = static_cast<uint32_t>(std::stoul(value()));
    } else if (word == "--limit") {
      request.options.instruction_limit = std::stoull(value());
    } else if (word == "--eager") {
      request.options.eager_memory = true;
    } else if (word == "--counts") {
      request.counts = true;
    } else if (word == "--list") {
      request.list = true;
    } else if (word.compare(0, 2, "--") == 0) {
      throw std::runtime_error("unknown option " + word + "\n" + kUsage);
    } else {
      positional.push_back(word);
    }
  }
  if (positional.size() < (request.list ? 1U : 2U)) throw std::runtime_error(kUsage);
  request.path = positional[0];
  if (positional.size() > 1) request.kernel = positional[1];
  if (positional.size() > 2) request.arguments.assign(positional.begin() + 2, positional.end());
  return request;
}

template <typename T>
std::vector<uint8_t> bytes_of(T value) {
  std::vector<uint8_t> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// The bytes of one argument; pointers are to a new last element of `buffers`, whose heap storage does not
// move.
std::vector<uint8_t> argument_bytes(const std::string &text, std::vector<Buffer> *buffers) {
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string value = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (kind == "i32") return bytes_of(static_cast<int32_t>(std::stol(value, nullptr, 0)));
  if (kind == "i64") return bytes_of(static_cast<int64_t>(std::stoll(value, nullptr, 0)));
  if (kind == "f32") return bytes_of(std::stof(value));
  if (kind == "raw") return read_file(value);
  Buffer buffer;
  if (kind == "in") {
    buffer.bytes = read_file(value);
  } else if (kind == "inout") {
    buffer.bytes = read_file(value);
    buffer.output = value;
  } else if (kind == "out" && value.find(':') != std::string::npos) {
    const size_t last = value.rfind(':');
    buffer.output = value.substr(0, last);
    buffer.bytes.assign(std::stoull(value.substr(last + 1)), 0xff);
  } else {
    throw std::runtime_error("unknown argument " + text + "\n" + kUsage);
  }
  buffer.writable = !buffer.output.empty();
  buffers->push_back(std::move(buffer));
  return bytes_of(static_cast<const void *>(buffers->back().bytes.data()));
}

void place_arguments(const Kernel &kernel, const std::vector<std::string> &texts,
                     std::vector<Buffer> *buffers, Launch *launch) {
  std::vector<Argument> explicit_arguments;
  for (const Argument &argument : kernel.arguments) {
    if (argument.kind.compare(0, 7, "hidden_") != 0) explicit_arguments.push_back(argument);
  }
  if (texts.size() != explicit_arguments.size()) {
    throw std::runtime_error("kernel " + kernel.name + " takes " + std::to_string(explicit_arguments.size()) +
                             " arguments, not " + std::to_string(texts.size()));
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    const Argument &argument = explicit_arguments[i];
    const std::vector<uint8_t> bytes = argument_bytes(texts[i], buffers);
    if (bytes.size() != argument.size) {
      throw std::runtime_error("argument " + std::to_string(i) + " has " + std::to_string(argument.size) +
                               " bytes, not " + std::to_string(bytes.size()));
    }
    launch->arguments.resize(std::max<size_t>(launch->arguments.size(), argument.offset + argument.size));
    std::copy(bytes.begin(), bytes.end(), launch->arguments.begin() + argument.offset);
  }
}

void list(const Program &program) {
  std::printf("%s, code object version %d\n", program.object().architecture.c_str(),
              program.object().version);
  for (const auto &[name, kernel] : program.object().kernels) {
    std::printf("%s: %u VGPRs, %u AGPRs, %u SGPRs, %u bytes of LDS, %u of scratch, %u of arguments\n",
                name.c_str(), kernel.vgpr_count, kernel.agpr_count, kernel.sgpr_count, kernel.lds_bytes,
                kernel.scratch_bytes, kernel.argument_bytes);
  }
  for (const std::string &text : program.unknown()) std::printf("unknown: %s\n", text.c_str());
}

void print_counts(const Program &program, const Statistics &statistics) {
  std::map<std::string, uint64_t> by_mnemonic;
  for (size_t i = 0; i < statistics.executed.size(); ++i) {
    if (statistics.executed[i] != 0)
      by_mnemonic[program.instructions()[i].mnemonic] += statistics.executed[i];
  }
  for (const auto &[mnemonic, count] : by_mnemonic) {
    std::printf("%12llu %s\n", static_cast<unsigned long long>(count), mnemonic.c_str());
  }
}

void run_request(Request request) {
  const std::vector<uint8_t> file = read_file(request.path);
  const Program program(std::string(file.begin(), file.end()), FLASHATTN_GCN_OBJDUMP);
  if (request.list) {
    list(program);
    return;
  }
  std::vector<Buffer> buffers;
  place_arguments(program.kernel(request.kernel), request.arguments, &buffers, &request.launch);
  std::vector<MemoryRange> ranges;
  for (const Buffer &buffer : buffers) {
    const uint64_t begin = reinterpret_cast<uint64_t>(buffer.bytes.data());
    ranges.push_back(
        {begin, begin + buffer.bytes.size(), buffer.writable, "argument " + std::to_string(ranges.size())});
  }
  const Statistics statistics = run(program, request.kernel, request.launch, ranges, request.options);
  for (const Buffer &buffer : buffers) {
    if (!buffer.writable) continue;
    std::ofstream out(buffer.output, std::ios::binary);
    out.write(reinterpret_cast<const char *>(buffer.bytes.data()),
              static_cast<std::streamsize>(buffer.bytes.size()));
    if (!out) throw std::runtime_error("cannot write " + buffer.output);
  }
  std::printf("%llu wave-instructions\n", static_cast<unsigned long long>(statistics.instructions));
  if (request.counts) print_counts(program, statistics);
}

}  // namespace
}  // namespace flashattn::gcn

int main(int argc, char **argv) {
  try {
    flashattn::gcn::run_request(flashattn::gcn::parse(std::vector<std::string>(argv + 1, argv + argc)));
  } catch (const flashattn::gcn::Trap &stopped) {
    std::fprintf(stderr, "trap: %s\n", stopped.what());
    return 2;
  } catch (const std::exception &failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
  return 0;
}
