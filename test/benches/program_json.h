// What the program writes as JSON.

#pragma once

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "test/benches/program_under_test.h"

namespace kernbench::test {

// Returns the JSON on stdout; fails the test unless the program has ended with 0.
inline nlohmann::ordered_json json_of(const ProgramResult& result) {
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  return nlohmann::ordered_json::parse(result.out);
}
inline nlohmann::ordered_json json_of(const std::vector<std::string>& arguments) {
  return json_of(run_program(arguments));
}

}  // namespace kernbench::test
