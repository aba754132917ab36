// SPDX-License-Identifier: Apache-2.0
// Calls that are wrong: the right class of status, a text that names the field, and not one byte written.
#include <doctest/doctest.h>

#include "tests/conformance/check.h"

namespace flashattn::test {
namespace {

struct Fault {
  const char *field;
  flashattn_status_t status;
  void (*shape)(Case *c);
  void (*spoil)(PreparedCall *call);
};

void plain(Case * /*c*/) {}
void ragged(Case *c) {
  c->layout_q = c->layout_kv = FLASHATTN_LAYOUT_RAGGED;
}
void used(Case *c) {
  c->seqused_q = c->seqused_kv = true;
  c->spare_q = c->spare_kv = 2;
}
void paged(Case *c) {
  c->layout_kv = FLASHATTN_LAYOUT_PAGED;
}
void csr(Case *c) {
  c->layout_kv = FLASHATTN_LAYOUT_PAGED_CSR;
}
void biased(Case *c) {
  c->bias.dtype = FLASHATTN_DTYPE_F32;
}
void features(Case *c) {
  c->alibi = PerHead::kHead;
  c->sinks = PerHead::kHead;
}

constexpr flashattn_status_t kArgument = FLASHATTN_STATUS_INVALID_ARGUMENT;
constexpr flashattn_status_t kNull = FLASHATTN_STATUS_NULL_POINTER;
constexpr flashattn_status_t kData = FLASHATTN_STATUS_INVALID_DATA;

// The host sees these on every backend.
const Fault kHostFaults[] = {
    {"batch", kArgument, plain, [](PreparedCall *p) { p->call.batch = 4; }},
    {"batch", kArgument, plain, [](PreparedCall *p) { p->call.batch = -1; }},
    {"seqlen_q", kArgument, plain, [](PreparedCall *p) { p->call.seqlen_q = 10; }},
    {"seqlen_q", kArgument, plain, [](PreparedCall *p) { p->call.seqlen_q = -1; }},
    {"seqlen_kv", kArgument, plain, [](PreparedCall *p) { p->call.seqlen_kv = 31; }},
    {"q", kNull, plain, [](PreparedCall *p) { p->call.q.data = nullptr; }},
    {"k", kNull, plain, [](PreparedCall *p) { p->call.k.data = nullptr; }},
    {"v", kNull, plain, [](PreparedCall *p) { p->call.v.data = nullptr; }},
    {"o", kNull, plain, [](PreparedCall *p) { p->call.o.data = nullptr; }},
    {"q.stride_seq", kArgument, plain, [](PreparedCall *p) { p->call.q.stride_seq = -8; }},
    {"k.stride_head", kArgument, plain, [](PreparedCall *p) { p->call.k.stride_head = -1; }},
    {"v.stride_batch", kArgument, plain, [](PreparedCall *p) { p->call.v.stride_batch = INT64_MIN; }},
    {"q.stride_batch", kArgument, plain, [](PreparedCall *p) { p->call.q.stride_batch = INT64_MAX; }},
    {"o.stride_seq", kArgument, plain, [](PreparedCall *p) { p->call.o.stride_seq = 0; }},
    {"o.stride_head", kArgument, plain, [](PreparedCall *p) { p->call.o.stride_head = 0; }},
    {"lse.stride_seq", kArgument, plain, [](PreparedCall *p) { p->call.lse.stride_seq = 0; }},
    {"reserved", kArgument, plain, [](PreparedCall *p) { p->call.reserved[3] = 1; }},
    {"reserved0", kArgument, plain, [](PreparedCall *p) { p->call.reserved0 = 1; }},
    {"total_q", kArgument, ragged, [](PreparedCall *p) { p->call.total_q = 1000; }},
    {"total_kv", kArgument, ragged, [](PreparedCall *p) { p->call.total_kv = -1; }},
    {"cu_seqlens_q", kNull, ragged, [](PreparedCall *p) { p->call.cu_seqlens_q = nullptr; }},
    {"cu_seqlens_kv", kNull, ragged, [](PreparedCall *p) { p->call.cu_seqlens_kv = nullptr; }},
    {"seqused_q", kNull, used, [](PreparedCall *p) { p->call.seqused_q = nullptr; }},
    {"seqused_kv", kNull, used, [](PreparedCall *p) { p->call.seqused_kv = nullptr; }},
    {"page_table", kNull, paged, [](PreparedCall *p) { p->call.page_table = nullptr; }},
    {"num_pages", kArgument, paged, [](PreparedCall *p) { p->call.num_pages = 10000; }},
    {"page_indptr", kNull, csr, [](PreparedCall *p) { p->call.page_indptr = nullptr; }},
    {"page_indices", kNull, csr, [](PreparedCall *p) { p->call.page_indices = nullptr; }},
    {"bias", kNull, biased, [](PreparedCall *p) { p->call.bias.data = nullptr; }},
    {"bias", kArgument, biased, [](PreparedCall *p) { p->call.bias.stride_kv = -1; }},
    {"alibi_slopes", kNull, features, [](PreparedCall *p) { p->call.alibi_slopes.data = nullptr; }},
    {"sinks", kNull, features, [](PreparedCall *p) { p->call.sinks.data = nullptr; }},
};

// These are in memory: a backend whose memory is the host's reports them before it writes.
const Fault kDataFaults[] = {
    {"cu_seqlens_q", kData, ragged, [](PreparedCall *p) { p->cu_seqlens_q()[1] = -1; }},
    {"cu_seqlens_q", kData, ragged, [](PreparedCall *p) { p->cu_seqlens_q()[2] = p->cu_seqlens_q()[1] - 1; }},
    {"cu_seqlens_q", kData, ragged, [](PreparedCall *p) { p->cu_seqlens_q()[3] += 5; }},
    {"cu_seqlens_kv", kData, ragged, [](PreparedCall *p) { p->cu_seqlens_kv()[3] += 500; }},
    // A sequence longer than the declared maximum, within the buffer.
    {"cu_seqlens_kv", kData, ragged, [](PreparedCall *p) { p->cu_seqlens_kv()[1] += 5; }},
    {"seqused_q", kData, used, [](PreparedCall *p) { p->seqused_q()[1] = 100; }},
    {"seqused_q", kData, used, [](PreparedCall *p) { p->seqused_q()[2] = -1; }},
    {"seqused_kv", kData, used, [](PreparedCall *p) { p->seqused_kv()[0] = 33; }},
    {"seqused_kv", kData, paged, [](PreparedCall *p) { p->seqused_kv()[2] = 100; }},
    {"page_table", kData, paged, [](PreparedCall *p) { p->page_table()[1] = 100000; }},
    {"page_table", kData, paged, [](PreparedCall *p) { p->page_table()[0] = -1; }},
    // Without pages the table may be NULL, but no key may be used.
    {"seqused_kv", kData, paged,
     [](PreparedCall *p) { p->call.num_pages = 0, p->call.page_table = nullptr; }},
    {"seqused_kv", kData, csr,
     [](PreparedCall *p) { p->call.num_pages = 0, p->call.page_indices = nullptr; }},
    {"page_indptr", kData, csr, [](PreparedCall *p) { p->page_indptr()[1] = -5; }},
    {"page_indices", kData, csr, [](PreparedCall *p) { p->page_table()[4] = 1 << 30; }},
};

void check_fault(const Fault &fault, const Kernel &kernel) {
  Case c;
  c.name = "fault";
  c.n_q = {9, 9, 9};
  c.n_k = {30, 30, 30};
  fault.shape(&c);
  Device &device = Session::instance().device(kernel.backend);
  flashattn_handle_t *handle = Session::instance().handle(kernel.backend, 2);
  PreparedCall call(c, make_contents(c, rng_for(c.name)), device);
  if (!run_on(kernel, c, call, nullptr)) return;

  flashattn_plan_t *plan = nullptr;
  REQUIRE(flashattn_plan_create(handle, &call.problem, &plan) == FLASHATTN_STATUS_OK);
  flashattn_plan_info_t info{};
  info.struct_size = sizeof(info);
  REQUIRE(flashattn_plan_info(plan, &info) == FLASHATTN_STATUS_OK);
  GuardedBuffer workspace(device, info.workspace_size);
  workspace.upload();
  REQUIRE(flashattn_workspace_init(plan, workspace.device_data(), workspace.size(), device.stream()) ==
          FLASHATTN_STATUS_OK);
  fault.spoil(&call);
  call.push();
  for (const bool cached : {false, true}) {
    call.reset_outputs();
    const flashattn_status_t status =
        cached
            ? flashattn_attention(handle, &call.problem, &call.call, device.stream())
            : flashattn_forward(plan, &call.call, workspace.device_data(), workspace.size(), device.stream());
    INFO((kernel.label() + (cached ? " attention " : " forward ") + fault.field + ": " +
          flashattn_last_error()));
    CHECK(status == fault.status);
    CHECK(std::string(flashattn_last_error()).find(fault.field) != std::string::npos);
    call.fetch();
    CHECK(call.outputs_untouched());
  }
  flashattn_plan_destroy(plan);
}

}  // namespace

TEST_CASE("errors: a wrong call names its field and writes nothing") {
  for (const Kernel &kernel : Session::instance().kernels()) {
    for (const Fault &fault : kHostFaults) check_fault(fault, kernel);
  }
}

TEST_CASE("errors: wrong lengths and pages in host memory are INVALID_DATA and write nothing") {
  for (const Kernel &kernel : Session::instance().kernels()) {
    if (!Session::instance().device(kernel.backend).host_memory()) continue;
    for (const Fault &fault : kDataFaults) check_fault(fault, kernel);
  }
}

TEST_CASE("errors: a workspace too small or misaligned is refused and nothing is written") {
  for (const Kernel &kernel : Session::instance().kernels()) {
    Case c;
    c.name = "workspace";
    c.n_q = {2};
    c.n_k = {300};
    c.num_splits = 3;
    Device &device = Session::instance().device(kernel.backend);
    flashattn_handle_t *handle = Session::instance().handle(kernel.backend, 2);
    PreparedCall call(c, make_contents(c, rng_for(c.name)), device);
    if (!run_on(kernel, c, call, nullptr)) continue;
    flashattn_plan_t *plan = nullptr;
    REQUIRE(flashattn_plan_create(handle, &call.problem, &plan) == FLASHATTN_STATUS_OK);
    flashattn_plan_info_t info{};
    info.struct_size = sizeof(info);
    REQUIRE(flashattn_plan_info(plan, &info) == FLASHATTN_STATUS_OK);
    REQUIRE(info.workspace_size > 0);
    GuardedBuffer workspace(device, info.workspace_size + 256);
    workspace.upload();
    uint8_t *data = static_cast<uint8_t *>(workspace.device_data());
    struct Bad {
      void *data;
      size_t size;
    };
    std::vector<Bad> bad = {{nullptr, info.workspace_size}, {data, info.workspace_size - 1}, {data, 0}};
    if (info.workspace_alignment > 1)
      bad.push_back({data + info.workspace_alignment / 2, info.workspace_size});
    for (const Bad &b : bad) {
      call.reset_outputs();
      const flashattn_status_t status = flashattn_forward(plan, &call.call, b.data, b.size, device.stream());
      CHECK((status == FLASHATTN_STATUS_WORKSPACE || status == FLASHATTN_STATUS_NULL_POINTER));
      CHECK(std::string(flashattn_last_error()).find("workspace") != std::string::npos);
      call.fetch();
      CHECK(call.outputs_untouched());
    }
    flashattn_plan_destroy(plan);
  }
}

TEST_CASE("errors: what no kernel can do is UNSUPPORTED, names the field and writes nothing") {
  struct Wish {
    const char *field;
    void (*set)(PreparedCall *call);
  };
  const Wish wishes[] = {
      {"dtype_q",
       [](PreparedCall *p) { p->problem.dtype_q = p->problem.dtype_kv = FLASHATTN_DTYPE_FP8_E4M3; }},
      {"dtype_kv", [](PreparedCall *p) { p->problem.dtype_kv = FLASHATTN_DTYPE_I8; }},
      {"head_dim", [](PreparedCall *p) { p->problem.head_dim = 100000; }},
      {"head_dim_v", [](PreparedCall *p) { p->problem.head_dim_v = 100000; }},
      {"op", [](PreparedCall *p) { p->problem.op = 1; }},
  };
  Case c;
  c.name = "unsupported";
  for (const Kernel &kernel : Session::instance().kernels()) {
    if (!kernel.name.empty()) continue;
    for (const Wish &wish : wishes) {
      Device &device = Session::instance().device(kernel.backend);
      PreparedCall call(c, make_contents(c, rng_for(c.name)), device);
      wish.set(&call);
      flashattn_handle_t *handle = Session::instance().handle(kernel.backend, 2);
      flashattn_plan_t *plan = nullptr;
      CHECK(flashattn_plan_create(handle, &call.problem, &plan) == FLASHATTN_STATUS_UNSUPPORTED);
      CHECK(plan == nullptr);
      INFO((std::string(wish.field) + ": " + flashattn_last_error()));
      CHECK(std::string(flashattn_last_error()).find(wish.field) != std::string::npos);
      CHECK(flashattn_attention(handle, &call.problem, &call.call, device.stream()) != FLASHATTN_STATUS_OK);
      call.fetch();
      CHECK(call.outputs_untouched());
    }
  }
}

}  // namespace flashattn::test
