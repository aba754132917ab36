// SPDX-License-Identifier: Apache-2.0
// Runs cases on every kernel of every backend that this machine has, and counts, so that nothing hides.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/prepared_call.h"

namespace flashattn::test {

// A kernel to force, or "" for the library's own choice.
struct Kernel {
  int32_t backend;
  std::string name;
  bool
      complete;  // the library's own choice and the last, most generic kernel: on the CPU they refuse nothing
  std::string label() const { return name.empty() ? "automatic choice" : name; }
};

struct Tally {
  int64_t run = 0;
  double share = 0;                        // largest error of O as a share of its bound
  std::map<std::string, int64_t> refused;  // by reason
};

// What became of one case on one kernel.
struct Outcome {
  enum { kPassed, kRefused, kFailed } kind;
  std::string text;  // the reason of a refusal, or what failed
};

class Session {
 public:
  static Session &instance();

  // Restrict kernels() to one backend ("cpu", ..) or one kernel by name; set once by main.
  void filter(const std::string &backend, const std::string &kernel);

  // The library's own choice first, then every available kernel, of every backend that can be opened.
  const std::vector<Kernel> &kernels() const { return kernels_; }

  Device &device(int32_t backend);
  flashattn_handle_t *handle(int32_t backend, int32_t threads);

  // The whole check of one case on one kernel: plan (the forced kernel must be the planned one), forward with
  // an exact guarded workspace, the accuracy rule, untouched surroundings, a second forward and
  // flashattn_attention bit for bit the same. expected may be null: then results are only fetched.
  Outcome run(const Case &c, PreparedCall &call, const Expected *expected, const Kernel &kernel);

  // Runs c on all kernels(), with contents drawn for this run. Returns one text per failure.
  std::vector<std::string> run_everywhere(const Case &c);

  // forward only, once; for cases too big to repeat, and for tests with checks of their own. Otherwise as
  // run().
  Outcome run_once(const Case &c, PreparedCall &call, const Expected *expected, const Kernel &kernel);

  // Cases run and refused per kernel, for the end of a run.
  std::string summary(bool reasons) const;

  ~Session();

 private:
  Session();
  Tally &count(const Kernel &kernel, const Outcome &outcome);

  std::vector<Kernel> kernels_;
  std::vector<std::string> unavailable_;
  std::map<int32_t, std::unique_ptr<Device>> devices_;
  std::map<std::pair<int32_t, int32_t>, flashattn_handle_t *> handles_;
  std::map<std::pair<int32_t, std::string>, Tally> tallies_;
};

}  // namespace flashattn::test
