// SPDX-License-Identifier: Apache-2.0
#include "tests/support/attention_case.h"

#include <algorithm>
#include <sstream>

#include "tests/support/dtype.h"

namespace flashattn::test {
namespace {

int32_t largest(const std::vector<int32_t> &values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

void list(std::ostream &out, const char *name, const std::vector<int32_t> &values) {
  out << ' ' << name << '=';
  for (size_t i = 0; i < values.size() && i < 8; ++i) out << (i > 0 ? "," : "") << values[i];
  if (values.size() > 8) out << ",.. (" << values.size() << ')';
}

void arrangement(std::ostream &out, const char *name, const Arrangement &a) {
  static constexpr const char *kOrders[] = {"BSH", "BHS", "SBH", "HBS"};
  const Arrangement plain;
  if (a.order == plain.order && a.pad_dim == 0 && a.pad_inner == 0 && a.pad_outer == 0 && a.misalign == 0 &&
      !a.broadcast_batch && !a.broadcast_seq && !a.broadcast_head) {
    return;
  }
  out << ' ' << name << '=' << kOrders[static_cast<int>(a.order)];
  if (a.pad_dim != 0) out << "/pad_dim" << a.pad_dim;
  if (a.pad_inner != 0) out << "/pad_inner" << a.pad_inner;
  if (a.pad_outer != 0) out << "/pad_outer" << a.pad_outer;
  if (a.misalign != 0) out << "/misalign" << a.misalign;
  if (a.broadcast_batch) out << "/bcast_b";
  if (a.broadcast_seq) out << "/bcast_s";
  if (a.broadcast_head) out << "/bcast_h";
}

}  // namespace

int32_t Case::max_n_q() const {
  return largest(n_q);
}
int32_t Case::max_n_k() const {
  return largest(n_k);
}

int64_t Case::diagonal(int32_t b) const {
  return static_cast<int64_t>(n_k[b]) - n_q[b] + diag_offset + (diag_offsets.empty() ? 0 : diag_offsets[b]);
}

std::string describe(const Case &c) {
  static constexpr const char *kLayouts[] = {"dense", "ragged", "paged", "csr"};
  std::ostringstream out;
  out << '"' << c.name << "\" " << dtype_name(c.dtype_q) << '/' << dtype_name(c.dtype_kv) << '/'
      << dtype_name(c.dtype_o) << " heads " << c.heads_q << '/' << c.heads_kv << " dim " << c.dim << '/'
      << c.dim_v;
  list(out, "n_q", c.n_q);
  list(out, "n_k", c.n_k);
  out << ' ' << kLayouts[c.layout_q] << '/' << kLayouts[c.layout_kv];
  if (c.paged()) out << " page_size=" << c.page_size;
  if (c.seqused_q) out << " seqused_q+" << c.spare_q;
  if (c.seqused_kv) out << " seqused_kv+" << c.spare_kv;
  if (c.lead_rows != 0) out << " lead=" << c.lead_rows;
  if (c.tail_rows != 0) out << " tail=" << c.tail_rows;
  if (c.cu_int64) out << " cu_int64";
  if (c.share_pages) out << " share_pages";
  if (c.scale != 0) out << " scale=" << c.scale;
  if (c.softcap != 0) out << " softcap=" << c.softcap;
  if (c.causal != 0) out << " causal";
  if (c.window) out << " window=" << c.left << ',' << c.right;
  if (c.diag_offset != 0) out << " diag_offset=" << c.diag_offset;
  if (!c.diag_offsets.empty()) list(out, "diag_offsets", c.diag_offsets);
  if (c.alibi != PerHead::kOff) out << (c.alibi == PerHead::kHead ? " alibi[H]" : " alibi[B,H]");
  if (c.sinks != PerHead::kOff) out << (c.sinks == PerHead::kHead ? " sinks[H]" : " sinks[B,H]");
  if (c.sink_value != 0) out << '=' << c.sink_value;
  if (c.bias.dtype != 0) {
    out << " bias=" << dtype_name(c.bias.dtype) << (c.bias.broadcast_batch ? "/bcast_b" : "")
        << (c.bias.broadcast_head ? "/bcast_h" : "") << (c.bias.broadcast_q ? "/bcast_q" : "")
        << (c.bias.broadcast_kv ? "/bcast_kv" : "") << (c.bias.transposed ? "/transposed" : "") << "/hidden"
        << c.bias.hidden;
  }
  if (c.num_splits != 0) out << " num_splits=" << c.num_splits;
  if (c.flags != 0) out << " flags=" << c.flags;
  if (c.slack != 0) out << " slack=" << c.slack;
  if (c.threads != 2) out << " threads=" << c.threads;
  arrangement(out, "q", c.q);
  arrangement(out, "k", c.k);
  arrangement(out, "v", c.v);
  arrangement(out, "o", c.o);
  if (!c.want_lse) out << " no_lse";
  if (c.lse_order != Order::kBHS || c.lse_pad != 0) {
    out << " lse_order=" << static_cast<int>(c.lse_order) << "/pad" << c.lse_pad;
  }
  if (c.q_spread != 1.0F) out << " q_spread=" << c.q_spread;
  return out.str();
}

}  // namespace flashattn::test
