// SPDX-License-Identifier: Apache-2.0
// How a vendor's driver library is opened at run time: a struct of function pointers is filled once per
// process from the first library that opens. Nothing here knows a vendor.
//
// clang-format off
//   struct CudaDriver { CUresult (*cuInit)(unsigned); ... };
//   constexpr DriverEntry kEntries[] = {{"cuInit", offsetof(CudaDriver, cuInit), DriverMark::kRequired}, ...};
//   constexpr const char *kLibraries[] = {"libcuda.so.1"};
//   DriverTable<CudaDriver> g_driver({"the CUDA driver", "driver 525", kLibraries, 1, kEntries, std::size(kEntries)});
// clang-format on
#pragma once

#include <cstddef>
#include <mutex>
#include <type_traits>

#include "src/status.h"

namespace flashattn {

enum class DriverMark {
  kRequired,  // a driver without it is too old
  kOptional,  // null in the table when the driver lacks it
};

// One entry point: its exported name and where its pointer lies in the table struct.
struct DriverEntry {
  const char *symbol;
  size_t offset;
  DriverMark mark;
};

// All texts and arrays static.
struct DriverDescription {
  const char *what;              // for errors: "the CUDA driver"
  const char *minimum;           // the oldest that works: "driver 525"
  const char *const *libraries;  // tried in order; the first that opens is the one
  size_t library_count;
  const DriverEntry *entries;
  size_t entry_count;
};

// Opens (RTLD_NOW | RTLD_LOCAL, never closed: a driver keeps threads and state of its own) and fills `table`,
// which is zeroed memory. NO_DRIVER with the loader's text, or DRIVER_TOO_OLD with the library and the
// missing symbol.
Status fill_driver_table(const DriverDescription &description, void *table);

// One vendor's table. A constant-initialised global object; thread-safe.
template <typename Table>
class DriverTable {
  static_assert(std::is_standard_layout_v<Table> && std::is_trivially_copyable_v<Table>);

 public:
  constexpr explicit DriverTable(const DriverDescription &description) : description_(description) {}

  // The table, filled by the first call of the process. A failure is final too, and told to every caller.
  Status get(const Table **table) {
    if (double_ != nullptr) {
      *table = double_;
      return kOk;
    }
    std::call_once(once_, [this] { open(); });
    *table = &table_;
    return status_ == kOk ? kOk : fail(status_, "%s", reason_);
  }

  // Tests put a table of their own in the driver's place; nullptr takes it out. Not thread-safe.
  void set_double(const Table *table) { double_ = table; }

 private:
  void open() {
    const SavedError before;
    status_ = fill_driver_table(description_, &table_);
    if (status_ == kOk) return;
    flashattn_last_error_copy(reason_, sizeof reason_);
    before.restore();
  }

  DriverDescription description_;
  std::once_flag once_{};
  Table table_{};
  const Table *double_ = nullptr;
  Status status_ = kOk;
  char reason_[kMaxErrorText] = "";
};

}  // namespace flashattn
