// SPDX-License-Identifier: Apache-2.0
// Tensors from and to files; the name's end (.npy, .safetensors) says which format.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/cli/tensor.h"

namespace flashattn::cli {

// Reads one tensor. In a .safetensors file it is the one called `name`; when name_given is false, a file with
// a single tensor gives that one whatever its name. name is not used for .npy. Throws InputError beginning
// with the path.
Tensor read_tensor(const std::string &path, const std::string &name, bool name_given);

// The __metadata__ of a .safetensors file.
std::map<std::string, std::string> read_metadata(const std::string &path);

// One file to write: a .npy takes exactly one tensor.
struct OutputFile {
  std::string path;
  std::vector<std::pair<std::string, const Tensor *>> tensors;
};

// Throws InputError when the path's end is no known format, the format cannot hold the elements or the path
// names something that is not a plain file. Called before the work, so that it is not done in vain.
void check_output(const std::string &path, Element element);

// Writes all or none: each file is complete under a temporary name in its own directory before the first is
// renamed. Throws Failure.
void write_files(const std::vector<OutputFile> &files);

}  // namespace flashattn::cli
