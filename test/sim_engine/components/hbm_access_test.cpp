// Accesses to several buffers of a slice of HBM by one command.

#include "sim_engine/components/hbm_access.h"

#include <catch2/catch.hpp>

#include "test/sim_engine/values/executor_under_test.h"

namespace kernbench::sim::hbm_access_test {
namespace {

constexpr Bytes kPage = 4096;

HbmPart part_at(Bytes address, const ElementRange& elements) {
  return {{{}, {}, address, DType::f32, 1 << 20}, elements};
}

HbmPart in_region(RegionId region, const ElementRange& elements) {
  return {{region, {}, 0, DType::f32, 0}, elements};
}

TEST_CASE("an access translates each page that its elements touch once", "[hbm]") {
  work::HbmAccess access{part_at(0, {0, 1024, 1, 0}), {}};
  CHECK(count_pages(access, kPage) == 1);
  access.elements = {1000, 100, 1, 0};  // over the end of a page
  CHECK(count_pages(access, kPage) == 2);
  access.elements = {0, 4, 8, 512};  // two rows in each page
  CHECK(count_pages(access, kPage) == 4);
  access.elements = {0, 4, 3, 4096};  // a page for each row
  CHECK(count_pages(access, kPage) == 3);
  access.elements = {0, 0, 1, 0};
  CHECK(count_pages(access, kPage) == 0);
  access.further = {part_at(kPage, {0, 1, 1, 0}), part_at(3 * kPage, {1020, 8, 1, 0})};
  CHECK(count_pages(access, kPage) == 3);
}

TEST_CASE("an access to several buffers has their elements one after the other", "[hbm]") {
  ExecutorUnderTest dut;
  const RegionId a = dut.store.create_region(DType::f32, 6);
  const RegionId b = dut.store.create_region(DType::f32, 4);
  work::HbmAccess access{in_region(a, {1, 2, 2, 3}), {}};
  access.further = {in_region(b, {2, 2, 1, 0})};
  const std::uint64_t before = count_writes(dut.store, access);
  store_value(dut.store, access, dut.store.ramp(DType::f32, 1, 6));
  CHECK(count_writes(dut.store, access) > before);
  CHECK(dut.elements(load_value(dut.store, access)) == Elements{1, 2, 3, 4, 5, 6});
  CHECK(dut.elements(dut.store.load(b, 2, 2)) == Elements{5, 6});
}

}  // namespace
}  // namespace kernbench::sim::hbm_access_test
