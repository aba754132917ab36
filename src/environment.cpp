// SPDX-License-Identifier: Apache-2.0
#include "src/environment.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace flashattn {
namespace {

struct Choice {
  const char *name;
  int32_t value;
};

constexpr Choice kBackends[] = {{"auto", FLASHATTN_BACKEND_AUTO},
                                {"cpu", FLASHATTN_BACKEND_CPU},
                                {"cuda", FLASHATTN_BACKEND_CUDA},
                                {"hip", FLASHATTN_BACKEND_HIP}};
constexpr Choice kLogLevels[] = {
    {"off", 0}, {"error", FLASHATTN_LOG_ERROR}, {"info", FLASHATTN_LOG_INFO}, {"debug", FLASHATTN_LOG_DEBUG}};

// One variable: its parsed value, or the unknown text it had.
struct Variable {
  int32_t value = 0;
  bool known = true;
  char text[64] = "";
};

struct Snapshot {
  std::once_flag once;
  Variable backend;
  Variable log;
};

Snapshot g_snapshot;

template <int kCount>
void read(const char *name, const Choice (&choices)[kCount], Variable *variable) {
  const char *text = std::getenv(name);
  if (text == nullptr || *text == '\0') return;
  for (const Choice &choice : choices) {
    if (std::strcmp(choice.name, text) == 0) {
      variable->value = choice.value;
      return;
    }
  }
  variable->known = false;
  std::snprintf(variable->text, sizeof variable->text, "%s", text);
}

}  // namespace

Status environment(Environment *result) {
  std::call_once(g_snapshot.once, [] {
    read("FLASHATTN_BACKEND", kBackends, &g_snapshot.backend);
    read("FLASHATTN_LOG", kLogLevels, &g_snapshot.log);
  });
  if (!g_snapshot.backend.known) {
    return fail(FLASHATTN_STATUS_ENVIRONMENT,
                "the environment variable FLASHATTN_BACKEND is \"%s\"; it may be auto, cpu, cuda or hip",
                g_snapshot.backend.text);
  }
  if (!g_snapshot.log.known) {
    return fail(FLASHATTN_STATUS_ENVIRONMENT,
                "the environment variable FLASHATTN_LOG is \"%s\"; it may be off, error, info or debug",
                g_snapshot.log.text);
  }
  result->backend = g_snapshot.backend.value;
  result->log_level = g_snapshot.log.value;
  return kOk;
}

}  // namespace flashattn
