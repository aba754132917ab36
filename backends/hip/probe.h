// SPDX-License-Identifier: Apache-2.0
// Which HIP devices there are, without initialising HIP: a process that forks afterwards can still use the GPU in its
// children. Asks the kernel driver's topology in sysfs. Where that is missing no GPU can be opened, and the runtime is
// asked, whose answer then opens nothing either. ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES are the runtime's, and
// are first seen when a device is opened.
#pragma once

#include <cstdint>

#include "backends/hip/driver.h"
#include "flashattn.h"

namespace flashattn::hip {

// NO_DEVICE with the reason when there are none.
Status count_devices(const HipDriver &driver, int32_t *count);

// Architecture, capability, memory and compute units as far as sysfs or, without it, the runtime tells.
void describe_device(const HipDriver &driver, int32_t ordinal, flashattn_device_info_t *info);

}  // namespace flashattn::hip
