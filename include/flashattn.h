/* SPDX-License-Identifier: Apache-2.0
 *
 * libflashattn: exact attention, O = softmax(scale * Q K^T + mask) V, computed tile by tile with the online
 * softmax (Milakov & Gimelshein 2018; Dao et al. 2022, algorithm 1). The score matrix is never stored.
 *
 * This header is the whole public interface and its manual.
 *
 *   handle   one device of one backend                        flashattn_create
 *   plan     an immutable dispatch decision for a problem      flashattn_plan_create
 *   call     pointers, strides and actual sizes                flashattn_forward
 *
 *   flashattn_handle_t *handle;
 *   flashattn_create(NULL, &handle);
 *   flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;      // dtypes, heads, features, maxima
 *   flashattn_call_t call = FLASHATTN_CALL_INIT;               // pointers, sizes, strides
 *   flashattn_attention(handle, &problem, &call, NULL);
 *   flashattn_destroy(handle);
 *
 * Conventions
 *   Structs     begin with struct_size; an INIT macro or an init function sets it. A smaller struct_size than
 *               this library's means defaults (zero) for the rest. A larger one is accepted when the tail this
 *               library does not know is all zero, and is FLASHATTN_STATUS_NEWER_STRUCT otherwise. Output
 *               structs: the prefix that fits is filled and any tail is zeroed. Zero is always "off" or
 *               "default", so a zero-filled struct asks for plain attention.
 *   Units       strides and totals are in elements, sizes named *_size or *_bytes in bytes. The last dimension
 *               of Q, K, V and O (the head dimension) is contiguous. No stride may be negative; 0 is legal for
 *               inputs (broadcast), and for an output only along a dimension of extent 0 or 1.
 *   Memory      every pointer inside a call (tensors, lengths, page tables, slopes) lives where the device can
 *               read it: device memory for a GPU handle, host memory for a CPU handle. The caller owns all of it
 *               and keeps it alive until the work enqueued has finished. Outputs must not overlap inputs.
 *   Errors      every function that can fail returns a status. flashattn_last_error() then names the field, its
 *               value and the rule it broke. On any error nothing is written to O or LSE.
 *   Threads     handles may be used from any number of threads at once; plans are immutable and may run
 *               concurrently as long as each running call has a workspace of its own.
 *   Silence     the library never prints unless a log callback is set or FLASHATTN_LOG asks, and never exits
 *               or aborts.
 *
 * Environment, read once per process by flashattn_create; an unknown value makes it fail with
 * FLASHATTN_STATUS_ENVIRONMENT:
 *   FLASHATTN_BACKEND   auto, cpu, cuda or hip: what FLASHATTN_BACKEND_AUTO means
 *   FLASHATTN_LOG       off, error, info or debug: messages to standard error for handles without a callback
 *
 * Semantics, the same on every backend. For one sequence with n_q queries and n_k keys let
 *     d = n_k - n_q + diag_offset.
 * Query i sees key j when 0 <= j < n_k and
 *     causal:                j <= i + d            (bottom-right aligned; top-left is diag_offset = n_q - n_k)
 *     window (left, right):  i + d - left <= j <= i + d + right   (both ends included, -1 unbounded;
 *                                                                  causal means right = 0)
 * score = scale * q.k;  softcap: c * tanh(score / c);  ALiBi: - slope * |i + d - j|;  + bias;  then the mask.
 * A row that sees no key has O = 0 and LSE = -inf. LSE is the natural logarithm of the sum of exp(score). A sink
 * adds exp(sink) to its head's denominator, to LSE, and nothing to the numerator. A score of -inf, however it came
 * about, makes its key invisible. Rows of K and V at or past a
 * sequence's length never reach a result, even if they hold NaN; NaN or inf at a visible key or query
 * propagates as IEEE arithmetic would; at a key inside the length but masked the result is unspecified.
 */
#ifndef FLASHATTN_H_
#define FLASHATTN_H_

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define FLASHATTN_CALL __cdecl
#if defined(FLASHATTN_BUILDING)
#define FLASHATTN_API __declspec(dllexport)
#else
#define FLASHATTN_API
#endif
#else
/** Calling convention of every function and callback. */
#define FLASHATTN_CALL
/** Marks what the library exports. */
#define FLASHATTN_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------- version -- */

#define FLASHATTN_VERSION_MAJOR 0
#define FLASHATTN_VERSION_MINOR 1
#define FLASHATTN_VERSION_PATCH 0
/** major * 1000000 + minor * 1000 + patch of this header. */
#define FLASHATTN_VERSION (FLASHATTN_VERSION_MAJOR * 1000000 + FLASHATTN_VERSION_MINOR * 1000 + FLASHATTN_VERSION_PATCH)

/** FLASHATTN_VERSION of the loaded library. Never fails. */
FLASHATTN_API uint32_t FLASHATTN_CALL flashattn_version(void);
/** "major.minor.patch" of the loaded library; static storage. */
FLASHATTN_API const char *FLASHATTN_CALL flashattn_version_string(void);

/* ----------------------------------------------------------------------------------------------- status -- */

/** A status code. Zero is success; the hundreds digit is the class. Values are never renumbered. */
typedef int32_t flashattn_status_t;

#define FLASHATTN_STATUS_OK 0
/* 1xx argument: the caller passed something wrong */
#define FLASHATTN_STATUS_INVALID_ARGUMENT 100  /**< a field's value breaks a rule */
#define FLASHATTN_STATUS_NULL_POINTER 101      /**< a pointer is NULL where one is needed */
#define FLASHATTN_STATUS_STRUCT_SIZE 102       /**< struct_size is too small to be a struct of this library */
#define FLASHATTN_STATUS_WORKSPACE 103         /**< workspace too small or misaligned */
#define FLASHATTN_STATUS_ENVIRONMENT 104       /**< an environment variable has an unknown value */
#define FLASHATTN_STATUS_INVALID_DATA 105      /**< lengths or page indices in memory break a rule */
/* 2xx unsupported: valid, but not possible here */
#define FLASHATTN_STATUS_UNSUPPORTED 200       /**< no kernel of this backend takes this problem or call */
#define FLASHATTN_STATUS_NEWER_STRUCT 201      /**< a larger struct with a non-zero unknown tail */
#define FLASHATTN_STATUS_NOT_BUILT 202         /**< the library was built without this backend */
#define FLASHATTN_STATUS_CAPTURING 203         /**< not possible while the stream is being captured */
/* 3xx resource */
#define FLASHATTN_STATUS_OUT_OF_MEMORY 300     /**< host or device memory ran out */
#define FLASHATTN_STATUS_OUT_OF_THREADS 301    /**< the system refused a thread */
/* 4xx driver and device */
#define FLASHATTN_STATUS_NO_DRIVER 400         /**< the vendor's driver library could not be opened */
#define FLASHATTN_STATUS_DRIVER_TOO_OLD 401    /**< the driver lacks a required entry point or version */
#define FLASHATTN_STATUS_NO_DEVICE 402         /**< the driver is there, a usable device is not */
#define FLASHATTN_STATUS_INVALID_DEVICE 403    /**< the device ordinal does not exist */
#define FLASHATTN_STATUS_DRIVER_ERROR 404      /**< a driver call failed; see flashattn_last_driver_error */
#define FLASHATTN_STATUS_FORKED 405            /**< a GPU handle used in a child process after fork */
/* 5xx internal */
#define FLASHATTN_STATUS_INTERNAL 500          /**< a fault of the library itself; please report it */

/** A short English text for any status value, "unknown status" for others. Never NULL; static storage. */
FLASHATTN_API const char *FLASHATTN_CALL flashattn_status_string(flashattn_status_t status);

/** The text of the last error of the calling thread: field, value, rule. "" before the first error. Never NULL;
 *  valid until the next failing call on this thread. A successful call leaves it as it was. */
FLASHATTN_API const char *FLASHATTN_CALL flashattn_last_error(void);

/** Copies flashattn_last_error() into buffer, always NUL-terminated when buffer_size > 0, for runtimes that move
 *  between threads. Returns the length of the whole text in bytes without the NUL. buffer may be NULL when
 *  buffer_size is 0. */
FLASHATTN_API size_t FLASHATTN_CALL flashattn_last_error_copy(char *buffer, size_t buffer_size);

/** The driver's own code (CUresult, hipError_t) of the last error of this thread, 0 where no driver was
 *  involved. */
FLASHATTN_API int32_t FLASHATTN_CALL flashattn_last_driver_error(void);

/* ----------------------------------------------------------------------------------------------- values -- */

/* Backends. */
#define FLASHATTN_BACKEND_AUTO 0 /**< a GPU when one can be opened, else the CPU */
#define FLASHATTN_BACKEND_CPU 1
#define FLASHATTN_BACKEND_CUDA 2
#define FLASHATTN_BACKEND_HIP 3

/* Element types. 0 means not set. */
#define FLASHATTN_DTYPE_F32 1
#define FLASHATTN_DTYPE_F16 2
#define FLASHATTN_DTYPE_BF16 3
#define FLASHATTN_DTYPE_FP8_E4M3 4 /**< Q, K, V with descales; no kernel takes it yet */
#define FLASHATTN_DTYPE_I8 5       /**< K, V with descales; no kernel takes it yet */
#define FLASHATTN_DTYPE_U8 6       /**< bias only: boolean mask, non-zero is visible */

/* Operations. */
#define FLASHATTN_OP_FORWARD 0

/* Layouts of Q and O (layout_q) and of K and V (layout_kv). */
#define FLASHATTN_LAYOUT_DENSE 0     /**< [batch, seqlen, heads, dim] by strides, any order */
#define FLASHATTN_LAYOUT_RAGGED 1    /**< [total, heads, dim]; sequence b is rows cu_seqlens[b] .. cu_seqlens[b+1] */
#define FLASHATTN_LAYOUT_PAGED 2     /**< K, V only: [pages, page_size, heads, dim], page_table[b][j] */
#define FLASHATTN_LAYOUT_PAGED_CSR 3 /**< K, V only: page_indices[page_indptr[b] .. page_indptr[b+1]] */

/* problem.features: what is computed. */
#define FLASHATTN_FEATURE_WINDOW UINT64_C(0x1)       /**< window_left and window_right are meaningful */
#define FLASHATTN_FEATURE_ALIBI UINT64_C(0x2)        /**< call.alibi_slopes */
#define FLASHATTN_FEATURE_SINKS UINT64_C(0x4)        /**< call.sinks */
#define FLASHATTN_FEATURE_SEQUSED_Q UINT64_C(0x8)    /**< call.seqused_q */
#define FLASHATTN_FEATURE_SEQUSED_KV UINT64_C(0x10)  /**< call.seqused_kv; needed by the paged layouts */
#define FLASHATTN_FEATURE_DIAG_OFFSETS UINT64_C(0x20) /**< call.diag_offsets, one per sequence */

/* problem.flags: how it is computed. */
#define FLASHATTN_FLAG_BATCH_INVARIANT UINT64_C(0x1)   /**< see flashattn_problem_t */
#define FLASHATTN_FLAG_REQUIRE_FAST UINT64_C(0x2)      /**< an error rather than the generic kernel */
#define FLASHATTN_FLAG_CU_SEQLENS_INT64 UINT64_C(0x4)  /**< cu_seqlens_q and cu_seqlens_kv are int64 */

/* problem.precision_f32: how f32 products are formed. */
#define FLASHATTN_PRECISION_IEEE 0   /**< f32 inputs are multiplied in full */
#define FLASHATTN_PRECISION_TF32 1   /**< inputs may be rounded to TF32 (10-bit mantissa) */
#define FLASHATTN_PRECISION_TF32X3 2 /**< three TF32 products, about f32 accuracy */

/* ------------------------------------------------------------------------------------------------- look -- */

/** One backend of this library. Output struct. */
typedef struct flashattn_backend_info_s {
  uint32_t struct_size;
  int32_t backend;        /**< FLASHATTN_BACKEND_* */
  int32_t status;         /**< FLASHATTN_STATUS_OK when a device could be opened, else why not */
  int32_t device_count;   /**< devices that could be opened */
  int32_t kernel_count;   /**< for flashattn_kernel_info */
  int32_t driver_version; /**< as the vendor counts; 0 where unknown or not applicable */
  char name[16];          /**< "cpu", "cuda", "hip" */
  char reason[232];       /**< what status means here; "" when OK */
} flashattn_backend_info_t;

/** One device. Output struct. */
typedef struct flashattn_device_info_s {
  uint32_t struct_size;
  int32_t backend;
  int32_t ordinal;             /**< the number flashattn_options_t.device takes */
  int32_t compute_units;       /**< cores, SMs or CUs */
  int32_t capability_major;    /**< compute capability / gfx major; 0 on the CPU */
  int32_t capability_minor;
  uint64_t total_memory_bytes; /**< 0 where unknown */
  char name[96];
  char features[128];          /**< CPU: instruction sets, space separated; GPU: architecture name */
} flashattn_device_info_t;

/** One kernel of a backend. Output struct. */
typedef struct flashattn_kernel_info_s {
  uint32_t struct_size;
  int32_t backend;
  int32_t available; /**< 1 when this machine can run it */
  int32_t reserved;
  char name[64];     /**< what flashattn_problem_t.kernel takes */
  char reason[184];  /**< why it is not available; "" when it is */
} flashattn_kernel_info_t;

/** Number of backends this library knows, built or not. Never fails. */
FLASHATTN_API int32_t FLASHATTN_CALL flashattn_backend_count(void);

/** Describes backend number index, 0 <= index < flashattn_backend_count(). Opens no driver context: a process
 *  that forks afterwards can still use the GPU in its children. */
FLASHATTN_API flashattn_status_t FLASHATTN_CALL flashattn_backend_info(int32_t index, flashattn_backend_info_t *info);

/** How many devices of the backend could be opened; FLASHATTN_BACKEND_AUTO counts all backends. *count is 0 and
 *  the status says why when there are none (no driver, not built). Opens no driver context. */
FLASHATTN_API flashattn_status_t FLASHATTN_CALL flashattn_device_count(int32_t backend, int32_t *count);

/** Describes one device, 0 <= ordinal < flashattn_device_count(). Opens no driver context. */
FLASHATTN_API flashattn_status_t FLASHATTN_CALL flashattn_device_info(int32_t backend, int32_t ordinal,
                                                                      flashattn_device_info_t *info);

/** Describes kernel number index of a backend, most specific first. Opens no driver context. */
FLASHATTN_API flashattn_status_t FLASHATTN_CALL flashattn_kernel_info(int32_t backend, int32_t index,
                                                                      flashattn_kernel_info_t *info);

/* ------------------------------------------------------------------------------------------------- open -- */

/** One device of one backend, its threads, its loaded code and its caches. */
typedef struct flashattn_handle flashattn_handle_t;

/** Log levels for flashattn_log_fn. */
#define FLASHATTN_LOG_ERROR 1
#define FLASHATTN_LOG_INFO 2
#define FLASHATTN_LOG_DEBUG 3

/** Receives messages from create, plan_create and attention, never from forward. May be called from any thread
 *  that uses the handle. message is valid during the call only. Must not throw or call back into the handle. */
typedef void(FLASHATTN_CALL *flashattn_log_fn)(void *user, int32_t level, const char *message);

/** Host allocator. Returns memory aligned to alignment (a power of two) or NULL. Called by create, plan_create
 *  and attention from any thread. */
typedef void *(FLASHATTN_CALL *flashattn_alloc_fn)(void *user, size_t size, size_t alignment);
typedef void(FLASHATTN_CALL *flashattn_free_fn)(void *user, void *memory, size_t size, size_t alignment);

/** One task of a parallel_for. */
typedef void(FLASHATTN_CALL *flashattn_task_fn)(void *context, int32_t index);

/** Runs task(context, i) exactly once for every i in [0, count), in any order, on any threads, also one after
 *  the other, and returns when all are done. count is at most flashattn_options_t.num_threads. */
typedef void(FLASHATTN_CALL *flashattn_parallel_for_fn)(void *user, int32_t count, flashattn_task_fn task,
                                                        void *context);

#define FLASHATTN_OPTION_VALIDATE UINT64_C(0x1) /**< check pointers, lengths and page indices on the device too */

/** What flashattn_create takes. Zero-filled: the best device, threads as the machine has. */
typedef struct flashattn_options {
  uint32_t struct_size;
  int32_t backend;     /**< FLASHATTN_BACKEND_* */
  int32_t device;      /**< device ordinal */
  int32_t num_threads; /**< CPU: threads per call, the caller's included; 0 = processors this process may use */
  uint64_t flags;      /**< FLASHATTN_OPTION_* */
  void *context;       /**< an existing CUcontext to use, or NULL for the device's primary context */
  flashattn_log_fn log;                   /**< or NULL */
  void *log_user;
  flashattn_alloc_fn alloc;               /**< or NULL; set together with free */
  flashattn_free_fn free;
  void *alloc_user;
  flashattn_parallel_for_fn parallel_for; /**< CPU: the caller's threads instead of a pool; or NULL */
  void *parallel_for_user;
  uint64_t reserved[4];                   /**< zero */
} flashattn_options_t;

#define FLASHATTN_OPTIONS_INIT                                                                              \
  {                                                                                                         \
    (uint32_t)sizeof(flashattn_options_t), 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, {    \
      0, 0, 0, 0                                                                                            \
    }                                                                                                       \
  }
FLASHATTN_API void FLASHATTN_CALL flashattn_options_init(flashattn_options_t *options);

/** What an open handle is. Output struct. */
typedef struct flashattn_handle_info_s {
  uint32_t struct_size;
  int32_t backend;
  int32_t device;
  int32_t num_threads; /**< CPU threads per call; 0 on a GPU */
  char name[96];       /**< the device's name */
} flashattn_handle_info_t;

/** Opens a device. options may be NULL. On success *handle is owned by the caller; on failure it is NULL. */
FLASHATTN_API flashattn_status_t FLASHATTN_CALL flashattn_create(const flashattn_options_t *options,
                                                                 flashattn_handle_t **handle);

/** Gives up the caller's reference. NULL is fine. Plans keep their handle alive, so the order of destruction does
 *  not matter; the last one to go joins the handle's threads. Waits for no device work. */
FLASHATTN_API void FLASHATTN_CALL flashattn_destroy(flashattn_handle_t *handle);

FLASHATTN_API flashattn_status_t FLASHATTN_CALL flashattn_handle_info(const flashattn_handle_t *handle,
                                                                      flashattn_handle_info_t *info);

/* ------------------------------------------------------------------------------------------------- plan -- */

/** A class of calls: dtypes, heads, features and maxima. No pointers; two problems with equal bytes are equal. */
typedef struct flashattn_problem {
  uint32_t struct_size;
  int32_t op;            /**< FLASHATTN_OP_* */
  int32_t dtype_q;       /**< f32, f16, bf16 */
  int32_t dtype_kv;      /**< f32, f16, bf16; K and V alike */
  int32_t dtype_o;       /**< f32, f16, bf16; 0 = dtype_q */
  int32_t dtype_bias;    /**< 0 = no bias; f32, f16, bf16 additive; u8 boolean mask. Not with ragged Q */
  int32_t layout_q;      /**< FLASHATTN_LAYOUT_DENSE or _RAGGED, of Q, O and LSE */
  int32_t layout_kv;     /**< FLASHATTN_LAYOUT_*, of K and V; any combination with layout_q */
  int32_t num_heads_q;   /**< >= 1 */
  int32_t num_heads_kv;  /**< divides num_heads_q; query head h reads KV head h / (num_heads_q / num_heads_kv) */
  int32_t head_dim;      /**< of Q and K, >= 1 */
  int32_t head_dim_v;    /**< of V and O; 0 = head_dim */
  int32_t max_batch;     /**< sequences per call, at most */
  int32_t max_seqlen_q;  /**< queries per sequence, at most */
  int32_t max_seqlen_kv; /**< keys per sequence, at most */
  int32_t page_size;     /**< paged layouts: slots per page, >= 1 */
  int64_t max_total_q;   /**< ragged Q: rows of the buffer, at most */
  int64_t max_total_kv;  /**< ragged KV: rows of the buffer, at most */
  int64_t max_pages;     /**< paged KV: pages in the pool, at most */
  uint64_t features;     /**< FLASHATTN_FEATURE_* */
  uint64_t flags;        /**< FLASHATTN_FLAG_*. BATCH_INVARIANT: kernel, key tile and KV chunks depend on the
                              dtypes, heads, dims and features only, so that a row's bits never depend on
                              batch, n_q, n_k or threads; num_splits must then be 0 */
  float softmax_scale;   /**< finite; 0 = 1/sqrt(head_dim) */
  float softcap;         /**< 0 = off; else finite and > 0 */
  int32_t causal;        /**< 0 or 1 */
  int32_t window_left;   /**< with FLASHATTN_FEATURE_WINDOW: >= -1, -1 unbounded; else 0 */
  int32_t window_right;
  int32_t num_splits;    /**< KV splits: 0 = choose (never by thread count), else 1..256 */
  int32_t precision_f32; /**< FLASHATTN_PRECISION_* */
  int32_t reserved0;     /**< zero */
  char kernel[64];       /**< force a kernel by name (flashattn_kernel_info); "" = choose */
  uint64_t reserved[8];  /**< zero */
} flashattn_problem_t;

#define FLASHATTN_PROBLEM_INIT                                                                               \
  {                                                                                                          \
    (uint32_t)sizeof(flashattn_problem_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0F, \
        0.0F, 0, 0, 0, 0, 0, 0, {0}, {                                                                       \
      0, 0, 0, 0, 0, 0, 0, 0                                                                                 \
    }                                                                                                        \
  }
FLASHATTN_API void FLASHATTN_CALL flashattn_problem_init(flashattn_problem_t *problem);

/** An immutable dispatch decision: kernels chosen and loaded, workspace fixed. */
typedef struct flashattn_plan flashattn_plan_t;

/** What was decided. Output struct. */
typedef struct flashattn_plan_info_s {
  uint32_t struct_size;
  int32_t backend;
  int32_t device;
  int32_t num_splits;          /**< most KV splits a call may use */
  uint64_t workspace_size;     /**< bytes flashattn_forward needs; 0 = none */
  uint64_t workspace_alignment; /**< bytes, a power of two */
  uint64_t materialized_bytes; /**< what a stored score and probability matrix would take at the maxima:
                                    2 * batch * heads * seqlen_q * seqlen_kv * 4 bytes, saturated */
  int32_t base_alignment;      /**< the fast kernel needs Q, K, V and O bases aligned to this many bytes ... */
  int32_t stride_alignment;    /**< ... and their strides to be multiples of this many bytes */
  int32_t deterministic;       /**< 1: bitwise equal results run to run */
  int32_t batch_invariant;     /**< 1: see FLASHATTN_FLAG_BATCH_INVARIANT */
  int32_t capturable;          /**< 1: forward may be captured into a graph (always 0 on the CPU) */
  int32_t reason_count;        /**< kernels refused before the chosen one, for flashattn_plan_reason */
  char kernel[64];             /**< the fast kernel */
  char generic_kernel[64];     /**< runs calls whose bases or strides the fast one cannot take */
} flashattn_plan_info_t;

/** Validates the problem, picks kernels, loads their code and fixes the workspace. Touches no tensor. On success
 *  *plan is owned by the caller; on failure it is NULL. UNSUPPORTED errors name the field that no kernel takes. */
FLASHATTN_API flashattn_status_t FLASHATTN_CALL flashattn_plan_create(flashattn_handle_t *handle,
                                                                      const flashattn_problem_t *problem,
                                                                      flashattn_plan_t **plan);
/** NULL is fine. No call may be running with the plan. */
FLASHATTN_API void FLASHATTN_CALL flashattn_plan_destroy(flashattn_plan_t *plan);

FLASHATTN_API flashattn_status_t FLASHATTN_CALL flashattn_plan_info(const flashattn_plan_t *plan,
                                                                    flashattn_plan_info_t *info);

/** Why a more specific kernel was not chosen: "kernel: reason", 0 <= index < reason_count. *reason is valid as
 *  long as the plan. */
FLASHATTN_API flashattn_status_t FLASHATTN_CALL flashattn_plan_reason(const flashattn_plan_t *plan, int32_t index,
                                                                      const char **reason);

/* -------------------------------------------------------------------------------------------------- run -- */

/** A tensor of rows. The element type comes from the problem.
 *  dense:  row (b, s, h) begins at data + b * stride_batch + s * stride_seq + h * stride_head
 *  ragged: row (t, h) of the whole buffer at data + t * stride_seq + h * stride_head; stride_batch unused
 *  paged:  row (page, slot, h) at data + page * stride_batch + slot * stride_seq + h * stride_head */
typedef struct flashattn_tensor {
  void *data; /**< never written through when the tensor is an input */
  int64_t stride_batch;
  int64_t stride_seq;
  int64_t stride_head;
} flashattn_tensor_t;

/** Bias or boolean mask: element (b, h, i, j) at data + b * stride_batch + h * stride_head + i * stride_q
 *  + j * stride_kv. Strides of 0 broadcast. */
typedef struct flashattn_bias {
  void *data;
  int64_t stride_batch;
  int64_t stride_head;
  int64_t stride_q;
  int64_t stride_kv;
} flashattn_bias_t;

/** One f32 per sequence and head: element (b, h) at data + b * stride_batch + h * stride_head. */
typedef struct flashattn_per_head {
  const float *data;
  int64_t stride_batch; /**< 0: the same for every sequence */
  int64_t stride_head;
} flashattn_per_head_t;

/** The pointers, strides and actual sizes of one call. */
typedef struct flashattn_call {
  uint32_t struct_size;
  int32_t batch;       /**< sequences, <= max_batch */
  int32_t seqlen_q;    /**< dense Q: rows per sequence. Ragged Q: a bound on this call's n_q, 0 = max_seqlen_q */
  int32_t seqlen_kv;   /**< dense KV: rows per sequence. Otherwise a bound on this call's n_k, 0 = max_seqlen_kv */
  int64_t total_q;     /**< ragged Q: rows of the buffers */
  int64_t total_kv;    /**< ragged KV: rows of the buffers */
  int64_t num_pages;   /**< paged KV: pages in the pool; page indices are below it */
  int32_t diag_offset; /**< moves the diagonal of every sequence; see the semantics above */
  int32_t reserved0;   /**< zero */
  flashattn_tensor_t q;   /**< [batch, seqlen_q, num_heads_q, head_dim] */
  flashattn_tensor_t k;   /**< [batch, seqlen_kv, num_heads_kv, head_dim] */
  flashattn_tensor_t v;   /**< [batch, seqlen_kv, num_heads_kv, head_dim_v] */
  flashattn_tensor_t o;   /**< [batch, seqlen_q, num_heads_q, head_dim_v], written; rows at or past n_q untouched */
  flashattn_tensor_t lse; /**< f32 [batch, seqlen_q, num_heads_q], written; data NULL = not wanted */
  const void *cu_seqlens_q;  /**< ragged Q: [batch + 1], not decreasing, within 0..total_q. int32, or int64 by flag */
  const void *cu_seqlens_kv; /**< ragged KV: [batch + 1], likewise */
  const int32_t *seqused_q;  /**< [batch]: n_q of each sequence, at most its rows */
  const int32_t *seqused_kv; /**< [batch]: n_k of each sequence, at most its rows (paged: its pages * page_size) */
  const int32_t *diag_offsets; /**< [batch]: diag_offset of each sequence, added to call.diag_offset */
  const int32_t *page_table;   /**< FLASHATTN_LAYOUT_PAGED: [batch, page_table_width] */
  int64_t page_table_stride;   /**< elements from one sequence's entries to the next's */
  int32_t page_table_width;    /**< entries per sequence */
  int32_t reserved1;           /**< zero */
  const int32_t *page_indptr;  /**< FLASHATTN_LAYOUT_PAGED_CSR: [batch + 1], not decreasing, begins >= 0 */
  const int32_t *page_indices; /**< FLASHATTN_LAYOUT_PAGED_CSR: [page_indptr[batch]] */
  flashattn_bias_t bias;             /**< with dtype_bias: [batch, num_heads_q, seqlen_q, seqlen_kv] */
  flashattn_per_head_t alibi_slopes; /**< with FLASHATTN_FEATURE_ALIBI: [batch or 1, num_heads_q] */
  flashattn_per_head_t sinks;        /**< with FLASHATTN_FEATURE_SINKS: [batch or 1, num_heads_q] */
  flashattn_per_head_t descale_q;    /**< fp8 and 8-bit KV: multiplies the stored values; no kernel takes it yet */
  flashattn_per_head_t descale_k;
  flashattn_per_head_t descale_v;
  flashattn_tensor_t grad_o; /**< for the backward operation, which this version does not have: all NULL, zero */
  flashattn_tensor_t grad_q;
  flashattn_tensor_t grad_k;
  flashattn_tensor_t grad_v;
  flashattn_bias_t grad_bias;
  float *grad_sinks;
  uint64_t reserved[8]; /**< zero */
} flashattn_call_t;

#define FLASHATTN_TENSOR_INIT {NULL, 0, 0, 0}
#define FLASHATTN_BIAS_INIT {NULL, 0, 0, 0, 0}
#define FLASHATTN_PER_HEAD_INIT {NULL, 0, 0}
#define FLASHATTN_CALL_INIT                                                                                    \
  {                                                                                                            \
    (uint32_t)sizeof(flashattn_call_t), 0, 0, 0, 0, 0, 0, 0, 0, FLASHATTN_TENSOR_INIT, FLASHATTN_TENSOR_INIT,  \
        FLASHATTN_TENSOR_INIT, FLASHATTN_TENSOR_INIT, FLASHATTN_TENSOR_INIT, NULL, NULL, NULL, NULL, NULL,     \
        NULL, 0, 0, 0, NULL, NULL, FLASHATTN_BIAS_INIT, FLASHATTN_PER_HEAD_INIT, FLASHATTN_PER_HEAD_INIT,      \
        FLASHATTN_PER_HEAD_INIT, FLASHATTN_PER_HEAD_INIT, FLASHATTN_PER_HEAD_INIT, FLASHATTN_TENSOR_INIT,      \
        FLASHATTN_TENSOR_INIT, FLASHATTN_TENSOR_INIT, FLASHATTN_TENSOR_INIT, FLASHATTN_BIAS_INIT, NULL, {      \
      0, 0, 0, 0, 0, 0, 0, 0                                                                                   \
    }                                                                                                          \
  }
FLASHATTN_API void FLASHATTN_CALL flashattn_call_init(flashattn_call_t *call);

/** Fills the strides of q, k, v, o, lse and page_table_stride for contiguous tensors in the order the field
 *  comments give ([.., seqlen, heads, dim]; LSE [batch, heads, seqlen_q] or, ragged, [heads, total_q]), from the
 *  sizes already in the call. Pointers, bias and per-head strides are left alone. */
FLASHATTN_API flashattn_status_t FLASHATTN_CALL flashattn_call_contiguous(const flashattn_problem_t *problem,
                                                                          flashattn_call_t *call);

/** Prepares a fresh workspace for plan. Needed once per workspace, before its first forward; forward leaves the
 *  workspace ready for the next. Enqueued on stream. workspace may be NULL when plan needs none. */
FLASHATTN_API flashattn_status_t FLASHATTN_CALL flashattn_workspace_init(const flashattn_plan_t *plan, void *workspace,
                                                                         size_t workspace_size, void *stream);

/** Computes O (and LSE). Enqueues on stream (CUstream, hipStream_t; NULL is the legacy default stream; ignored on
 *  the CPU, where the work is done on return). Never allocates, synchronises, loads code or logs. workspace
 *  belongs to this call until its work is done: on the CPU until return, on a GPU until later work on the same
 *  stream. A call whose bases or strides the fast kernel cannot take runs the generic one, unless the problem
 *  says FLASHATTN_FLAG_REQUIRE_FAST. batch = 0 and empty sequences are valid. */
FLASHATTN_API flashattn_status_t FLASHATTN_CALL flashattn_forward(const flashattn_plan_t *plan,
                                                                  const flashattn_call_t *call, void *workspace,
                                                                  size_t workspace_size, void *stream);

/** flashattn_forward with a plan from the handle's bounded cache and a workspace from its pool. May allocate on
 *  first use of a problem; on a stream that is being captured it is CAPTURING unless it needs no workspace and
 *  the plan is cached. */
FLASHATTN_API flashattn_status_t FLASHATTN_CALL flashattn_attention(flashattn_handle_t *handle,
                                                                    const flashattn_problem_t *problem,
                                                                    const flashattn_call_t *call, void *stream);

/* ------------------------------------------------------------------------------------------------ merge -- */

/** Partial results over disjoint sets of keys and how to merge them:
 *      LSE = ln(sum_p exp(LSE_p)),   O = sum_p exp(LSE_p - LSE) * O_p.
 *  For split KV, shared prefixes and ring / context parallelism. A part with LSE = -inf contributes nothing,
 *  whatever its O holds; all parts empty gives O = 0 and LSE = -inf. At most one part may have counted a sink. */
typedef struct flashattn_combine_args {
  uint32_t struct_size;
  int32_t num_parts;     /**< >= 1 */
  int32_t batch;         /**< for ragged results use batch 1 and seqlen_q = total_q */
  int32_t seqlen_q;
  int32_t num_heads;
  int32_t head_dim_v;
  int32_t dtype_partial; /**< f32, f16, bf16 */
  int32_t dtype_o;       /**< f32, f16, bf16 */
  flashattn_tensor_t o_partial;   /**< part p's row (b, s, h) at data + p * o_partial_stride_part + b * stride_batch + .. */
  int64_t o_partial_stride_part;
  flashattn_tensor_t lse_partial; /**< f32, strides likewise */
  int64_t lse_partial_stride_part;
  flashattn_tensor_t o;           /**< written */
  flashattn_tensor_t lse;         /**< f32, written; data NULL = not wanted */
  uint64_t reserved[4];           /**< zero */
} flashattn_combine_args_t;

#define FLASHATTN_COMBINE_ARGS_INIT                                                                           \
  {                                                                                                           \
    (uint32_t)sizeof(flashattn_combine_args_t), 0, 0, 0, 0, 0, 0, 0, FLASHATTN_TENSOR_INIT, 0,                \
        FLASHATTN_TENSOR_INIT, 0, FLASHATTN_TENSOR_INIT, FLASHATTN_TENSOR_INIT, {                             \
      0, 0, 0, 0                                                                                              \
    }                                                                                                         \
  }
FLASHATTN_API void FLASHATTN_CALL flashattn_combine_args_init(flashattn_combine_args_t *args);

/** Merges partial results. Enqueues on stream; needs no workspace. Outputs must not overlap the partials. */
FLASHATTN_API flashattn_status_t FLASHATTN_CALL flashattn_combine(flashattn_handle_t *handle,
                                                                  const flashattn_combine_args_t *args, void *stream);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* FLASHATTN_H_ */
