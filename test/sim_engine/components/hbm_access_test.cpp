// Accesses to several buffers of a slice of HBM by one command.

#include "sim_engine/components/hbm_access.h"

#include <catch2/catch.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "test/sim_engine/values/executor_under_test.h"

namespace kernbench::sim::hbm_access_test {
namespace {

constexpr Bytes kPage = 4096;

HbmPart part_at(Bytes address, const ElementRange& elements) {
  return {{{}, {}, address, DType::f32, 1 << 20}, elements};
}

MatrixAt matrix_at(RegionId region, Bytes address, std::int64_t begin) {
  return {{region, {}, address, DType::f32, 1 << 20}, begin, 3};
}

OperandAt operand_at(const MatrixAt& first, std::vector<FurtherBlock> further) {
  return {first, std::make_shared<const FurtherBlocks>(FurtherBlocks{std::move(further)})};
}

TEST_CASE("an access translates each page that its elements touch once", "[hbm]") {
  work::HbmAccess access{part_at(0, {0, 1024, 1, 0})};
  CHECK(count_pages(access, kPage) == 1);
  access.elements = {1000, 100, 1, 0};  // over the end of a page
  CHECK(count_pages(access, kPage) == 2);
  access.elements = {0, 4, 8, 512};  // two rows in each page
  CHECK(count_pages(access, kPage) == 4);
  access.elements = {0, 4, 3, 4096};  // a page for each row
  CHECK(count_pages(access, kPage) == 3);
  access.elements = {0, 0, 1, 0};
  CHECK(count_pages(access, kPage) == 0);
  // Three rows: two lie in a page each, the last one in two.
  const OperandAt operand =
      operand_at(matrix_at({}, 0, 0),
                 {{1, matrix_at({}, kPage, 0)}, {2, matrix_at({}, 3 * kPage, 1020)}});
  access.operand = &operand;
  access.rows = {0, 0, 0, 3, 8};
  CHECK(count_pages(access, kPage) == 4);
}

TEST_CASE("an access to several buffers has their elements one after the other", "[hbm]") {
  ExecutorUnderTest dut;
  const RegionId a = dut.store.create_region(DType::f32, 6);
  const RegionId b = dut.store.create_region(DType::f32, 4);
  const OperandAt operand = operand_at(matrix_at(a, 0, 1), {{2, matrix_at(b, 0, 2)}});
  work::HbmAccess access{{operand.buffer, operand.in_first_block({0, 0, 0, 3, 2})}};
  access.operand = &operand;
  access.rows = {0, 0, 0, 3, 2};
  const std::uint64_t before = count_writes(dut.store, access);
  store_value(dut.store, access, dut.store.ramp(DType::f32, 1, 6));
  CHECK(count_writes(dut.store, access) > before);
  CHECK(dut.elements(load_value(dut.store, access)) == Elements{1, 2, 3, 4, 5, 6});
  CHECK(dut.elements(dut.store.load(b, 2, 2)) == Elements{5, 6});
}

}  // namespace
}  // namespace kernbench::sim::hbm_access_test
