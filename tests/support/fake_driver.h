/* SPDX-License-Identifier: Apache-2.0
 *
 * A tiny "GPU driver" with two devices, streams and memory, built as shared libraries that the tests open the
 * way a vendor's driver is opened. Work is queued on a stream and runs when the stream is synchronised, in
 * the thread that does it, so that a test sees what asynchronous means: before that, outputs are untouched.
 *
 * Streams: NULL is the default stream. Codes: 0 is success.
 * Variants: FAKE_DRIVER_OLD lacks fakeLaunch; FAKE_DRIVER_NO_DEVICE has none.
 */
#ifndef FLASHATTN_TESTS_SUPPORT_FAKE_DRIVER_H_
#define FLASHATTN_TESTS_SUPPORT_FAKE_DRIVER_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FAKE_SUCCESS 0
#define FAKE_INVALID_VALUE 1
#define FAKE_OUT_OF_MEMORY 2

typedef void (*fake_work_fn)(void *argument);

typedef struct fake_driver {
  int (*fakeDriverGetVersion)(int *version);
  int (*fakeDeviceGetCount)(int *count);
  int (*fakeDeviceGetName)(char *name, size_t size, int device);
  /* Memory of one device. Freeing waits for all queued work, as cuMemFree does. */
  int (*fakeMemAlloc)(void **memory, size_t size, size_t alignment, int device);
  int (*fakeMemFree)(void *memory);
  int (*fakeStreamIsCapturing)(void *stream, int *capturing);
  /* Queues run(argument), then drop(argument), which happens also when the work never runs. */
  int (*fakeLaunch)(void *stream, int device, fake_work_fn run, fake_work_fn drop, void *argument);
  /* Not in any variant: an optional entry point of newer drivers. */
  int (*fakeLaunchNewer)(void *stream);
} fake_driver_t;

/* For tests only, found with dlsym. */
typedef struct fake_control {
  int (*fakeStreamCreate)(void **stream);
  int (*fakeStreamDestroy)(void *stream);
  int (*fakeStreamSynchronize)(void *stream);
  void (*fakeStreamSetCapturing)(void *stream, int capturing);
  /* The next fakeLaunch or fakeMemAlloc answers code. */
  void (*fakeFailNext)(int code);
  /* Launches on a device so far; bytes of device memory now allocated; work still queued. */
  int (*fakeLaunchCount)(int device);
  size_t (*fakeBytesInUse)(void);
  int (*fakeQueued)(void);
} fake_control_t;

#ifdef __cplusplus
}
#endif

#endif /* FLASHATTN_TESTS_SUPPORT_FAKE_DRIVER_H_ */
