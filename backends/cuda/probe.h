// SPDX-License-Identifier: Apache-2.0
// Which CUDA devices there are, without initialising CUDA: a process that forks afterwards can still use the
// GPU in its children. Asks NVML, and where that is missing counts /proc/driver/nvidia/gpus.
// CUDA_VISIBLE_DEVICES is honoured as the driver does: indices and UUIDs up to the first entry that names no
// device.
#pragma once

#include <cstdint>

#include "flashattn.h"
#include "src/status.h"

namespace flashattn::cuda {

// How many devices the driver will show. NO_DEVICE with the reason when there are none.
Status count_devices(int32_t *count);

// Name, capability, memory and multiprocessors of a device; what NVML does not tell stays as it is. NVML
// lists devices by PCI address; the driver does so too when CUDA_DEVICE_ORDER is PCI_BUS_ID or all are alike.
void describe_device(int32_t ordinal, flashattn_device_info_t *info);

}  // namespace flashattn::cuda
