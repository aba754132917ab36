// SPDX-License-Identifier: Apache-2.0
// Tells whoever waits how far a long run is, on standard error.
#pragma once

#include <string>

namespace flashattn::cli {

class Progress {
 public:
  // On a terminal one line that changes, elsewhere nothing unless `always`, which gives a line for each step.
  Progress(int steps, bool always);
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  // "[3/16] text": step number 3 begins.
  void step(const std::string &text);
  // Removes the line, so that standard output may write to the same terminal.
  void clear();

 private:
  int steps_;
  bool always_;
  bool terminal_;
  int done_ = 0;
  bool shown_ = false;
};

}  // namespace flashattn::cli
