// SPDX-License-Identifier: Apache-2.0
// A libamdhip64 from before most of what the backend calls.
extern "C" __attribute__((visibility("default"))) int hipInit(unsigned flags);
int hipInit(unsigned /*flags*/) {
  return 0;
}
