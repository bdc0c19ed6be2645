#include "sim_engine/values/element_leases.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

namespace kernbench::sim::element_leases_test {

namespace {

using Names = std::set<std::string>;
using Leases = ElementLeases<std::string>;

Names holders(const Leases& leases, const ElementRange& elements) {
  Names names;
  leases.visit_overlapping(
      elements, [&](const std::string& name, const ElementRange&) { names.insert(name); });
  return names;
}

}  // namespace

TEST_CASE("the holders of elements are those whose ranges overlap", "[leases]") {
  Leases leases;
  CHECK(leases.empty());
  leases.add({0, 4}, "first");
  leases.add({2, 6}, "second");
  leases.add({0, 2, 3, 10}, "rows");  // 0..1, 10..11, 20..21
  CHECK(holders(leases, {1, 1}) == Names{"first", "rows"});
  CHECK(holders(leases, {3, 1}) == Names{"first", "second"});
  CHECK(holders(leases, {8, 2}).empty());
  CHECK(holders(leases, {20, 100}) == Names{"rows"});
}

TEST_CASE("a lease that ends frees its elements, and its place is used again", "[leases]") {
  Leases leases;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 40; ++i) leases.add({i, 1}, std::to_string(i));
    leases.erase_if({10, 5}, [](const std::string& name, const ElementRange& elements) {
      return name != "12" && elements.begin < 14;
    });
    CHECK(holders(leases, {10, 5}) == Names{"12", "14"});
    leases.erase_if({0, 40}, [](const std::string&, const ElementRange&) { return true; });
    CHECK(leases.empty());
  }
}

}  // namespace kernbench::sim::element_leases_test
