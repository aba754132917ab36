// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/progress.h"

#include <unistd.h>

#include <cstdio>

namespace flashattn::cli {

Progress::Progress(int steps, bool always)
    : steps_(steps), always_(always), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  clear();
}

void Progress::step(const std::string &text) {
  ++done_;
  if (!terminal_ && !always_) return;
  clear();
  std::fprintf(stderr, "[%d/%d] %s%s", done_, steps_, text.c_str(), terminal_ ? "" : "\n");
  std::fflush(stderr);
  shown_ = terminal_;
}

void Progress::clear() {
  // ECMA-48: carriage return, then CSI K, which erases to the end of the line.
  if (shown_) std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace flashattn::cli
