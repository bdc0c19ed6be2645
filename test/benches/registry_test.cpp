#include "benches/bench/registry.h"

#include <catch2/catch.hpp>

namespace kernbench::benches::registry_test {

using Catch::Contains;

TEST_CASE("a registry has each name once, in order, and says what is near", "[registry]") {
  Registry<int> registry("a", "thing", "KB-U002");
  CHECK_THROWS_WITH(registry.find("two"), Contains("there are none"));
  registry.add("two", 2);
  registry.add("one", 1);
  CHECK(registry.find("two") == 2);
  std::string names;
  for (const auto& [name, entry] : registry) names += name;
  CHECK(names == "onetwo");
  CHECK_THROWS_WITH(registry.add("two", 3), Contains("KB-U006") && Contains("'two' exists"));
  CHECK(registry.find("two") == 2);
  CHECK_THROWS_WITH(registry.find("tow"), Contains("KB-U002") && Contains("did you mean 'two'?"));
}

}  // namespace kernbench::benches::registry_test
