// Random accesses beside a search through all of them.

#include "sim_engine/values/access_index.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

namespace kernbench::sim::access_index_test {

namespace {

struct Access {
  RegionId region;
  ElementRange elements;
};

class RandomAccesses {
 public:
  explicit RandomAccesses(unsigned seed) : draw_(seed) {}

  Access next() {
    const RegionId region{below(2), below(2)};
    if (below(4) > 0) return {region, {below(400), below(20)}};
    const auto columns = static_cast<std::int64_t>(below(10));
    return {region, {below(400), columns, 1 + below(5), columns + below(30)}};
  }
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(draw_()) % limit; }

 private:
  std::mt19937 draw_;
};

}  // namespace

TEST_CASE("a search finds what overlaps, among accesses that come and go", "[access_index]") {
  RandomAccesses random(GENERATE(1U, 2U, 3U));
  AccessIndex index;
  AccessIndex::Set set;
  AccessIndex::Set other;  // shares the storage, and is not found
  std::map<AccessIndex::Id, Access> there;
  for (int round = 0; round < 20'000; ++round) {
    const std::uint32_t choice = random.below(100);
    if (there.size() < 200 && choice < 45) {
      const Access access = random.next();
      REQUIRE(there.emplace(index.add(set, access.region, access.elements), access).second);
      if (choice < 5) index.add(other, access.region, access.elements);
    } else if (choice < 80 && !there.empty()) {
      const auto gone = std::next(there.begin(), random.below(static_cast<unsigned>(there.size())));
      index.remove(set, gone->first);
      there.erase(gone);
    } else {
      const Access wanted = random.next();
      std::set<AccessIndex::Id> expected;
      for (const auto& [id, access] : there) {
        const bool is_hit =
            access.region == wanted.region && overlap(access.elements, wanted.elements);
        if (is_hit) expected.insert(id);
      }
      std::set<AccessIndex::Id> found;
      index.visit_overlapping(set, wanted.region, wanted.elements,
                              [&](AccessIndex::Id id, const ElementRange& elements) {
                                CHECK(elements == there.at(id).elements);
                                CHECK(found.insert(id).second);
                              });
      REQUIRE(found == expected);
    }
    REQUIRE(set.empty() == there.empty());
  }
}

}  // namespace kernbench::sim::access_index_test
