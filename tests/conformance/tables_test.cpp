// SPDX-License-Identifier: Apache-2.0
// The tables, one test each. Failures print the case, the kernel and the seed.
#include <doctest/doctest.h>

#include "tests/conformance/check.h"

namespace flashattn::test {

TEST_CASE("table: element types") {
  check_table("element types", dtype_cases());
}
TEST_CASE("table: head dimensions") {
  check_table("head dimensions", head_dim_cases());
}
TEST_CASE("table: head counts") {
  check_table("head counts", head_count_cases());
}
TEST_CASE("table: tile edges") {
  check_table("tile edges", tile_edge_cases());
}
TEST_CASE("table: masks") {
  check_table("masks", mask_cases());
}
TEST_CASE("table: scores") {
  check_table("scores", score_cases());
}
TEST_CASE("table: sinks") {
  check_table("sinks", sink_cases());
}
TEST_CASE("table: bias") {
  check_table("bias", bias_cases());
}
TEST_CASE("table: extreme logits") {
  check_table("extreme logits", extreme_logit_cases());
}
TEST_CASE("table: strides") {
  check_table("strides", stride_cases());
}
TEST_CASE("table: ragged and used lengths") {
  check_table("ragged and used lengths", ragged_cases());
}
TEST_CASE("table: pages") {
  check_table("pages", paged_cases());
}
TEST_CASE("table: splits") {
  check_table("splits", split_cases());
}
TEST_CASE("table: tiles") {
  check_table("tiles", tile_cases());
}
TEST_CASE("table: random combinations") {
  check_table("random combinations", random_cases(600));
}

}  // namespace flashattn::test
