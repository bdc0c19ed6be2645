#include <catch2/catch.hpp>

#include "test/benches/program_json.h"

namespace kernbench::test::cli_list_test {

using Catch::Contains;
using Json = nlohmann::ordered_json;

TEST_CASE("list names benches, algorithms and topologies", "[cli][list]") {
  const ProgramResult result = run_program({"list"});
  REQUIRE(result.exit_code == 0);
  for (const char* name : {"ccl-allreduce", "n_elem=", "intercube_allreduce", "default",
                           "ring_1d_6", "torus_2d_2x3", "mesh_2d_no_wrap_2x3", "scale_1024"}) {
    CHECK_THAT(result.out, Contains(name));
  }
}

TEST_CASE("list --json holds the same for machines", "[cli][list]") {
  const Json list = json_of({"list", "--json", "-"});
  CHECK(list["benches"][1]["name"] == "ccl-allreduce");
  CHECK(list["benches"][1]["settings"][1] ==
        Json::parse(R"({"key": "dtype", "default": "f16", "help": "f16, bf16 or f32"})"));
  CHECK(list["algorithms"][0]["collective"] == "all_reduce");
  CHECK(list["algorithms"][0]["groups"] == "any group");
  CHECK(list["topologies"].size() == 25);
  for (const Json& topology : list["topologies"]) {
    CHECK(topology["summary"].get<std::string>().ends_with('.'));
  }
}

}  // namespace kernbench::test::cli_list_test
