#include "test/tidy/error_codes.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernbench::tidy::error_codes_test {

namespace {

const Line kEntry{"benches/errors/codes_a_to_d.cpp", 9, R"(    {"KB-A001", ExitCode::usage,)"};
const Line kThrow{"runtime/a.cpp", 5, R"(  throw UsageError("KB-A001", "why");)"};

// The classes of errors, as error.h has them.
const Lines kClasses = {
    {"sim_engine/base/error.h", 1, "class UsageError : public ErrorOf<ExitCode::usage> {"},
    {"sim_engine/base/error.h", 2, "class DeadlockError : public ErrorOf<ExitCode::deadlock> {"},
    {"sim_engine/base/error.h", 3, "class LivelockError : public DeadlockError {"},
};

// The offences against exit codes of lines, beside the classes and an entry of the table.
Offences check_exits_of(const std::string& first, const std::string& second = "") {
  Lines lines = kClasses;
  lines.push_back(kEntry);
  lines.push_back({"runtime/a.cpp", 1, first});
  lines.push_back({"runtime/a.cpp", 2, second});
  return check_exit_codes(lines);
}

}  // namespace

TEST_CASE("the table has all codes of the product, and no others", "[tidy][errors]") {
  const Lines sources = read_sources(KERNBENCH_ROOT);
  for (const std::string& offence : check_error_codes(sources)) FAIL_CHECK(offence);
  for (const std::string& offence : check_exit_codes(sources)) FAIL_CHECK(offence);
  SUCCEED();
}

TEST_CASE("a code that the table lacks is told, but not one of a comment or a test",
          "[tidy][rules]") {
  CHECK(check_error_codes({kEntry, kThrow}).empty());
  CHECK(check_error_codes({kThrow}) ==
        Offences{"runtime/a.cpp:5: KB-A001 is not in benches/errors/codes_*.cpp: add it there"});
  CHECK(check_error_codes({{"ccl/a.cpp", 1, "print(\"[KB-A001] x\");"}}).size() == 1);
  CHECK(check_error_codes({{"ccl/a.cpp", 1, "x();  // throws KB-A001"}}).empty());
  CHECK(check_error_codes({{"test/ccl/a.cpp", 1, "says(\"KB-A001\");"}}).empty());
}

TEST_CASE("a code that the product lacks is told, and one that is there twice", "[tidy][rules]") {
  CHECK(check_error_codes({kEntry}) ==
        Offences{"benches/errors/codes_a_to_d.cpp:9: the product has no KB-A001"});
  CHECK(check_error_codes({kEntry, kEntry, kThrow}) ==
        Offences{"benches/errors/codes_a_to_d.cpp:9: KB-A001 is there twice"});
}

TEST_CASE("an exit code is told that is not the one of the class that is thrown", "[tidy][rules]") {
  CHECK(check_exits_of("throw UsageError(\"KB-A001\", \"why\");").empty());
  CHECK(check_exits_of("throw DeadlockError(\"KB-A001\", \"why\");") ==
        Offences{"runtime/a.cpp:1: KB-A001 is thrown with ExitCode::deadlock, and the table has "
                 "usage"});
  CHECK(check_exits_of("throw LivelockError(", "    \"KB-A001\", \"why\");") ==
        Offences{"runtime/a.cpp:2: KB-A001 is thrown with ExitCode::deadlock, and the table has "
                 "usage"});
  CHECK(check_exits_of("print(\"KB-A001\");").empty());
}

TEST_CASE("an exit code beside the code goes before that of the class", "[tidy][rules]") {
  CHECK(check_exits_of("throw DeadlockError(\"KB-A001\", \"a; b\",", "ExitCode::usage);").empty());
  CHECK(check_exits_of("throw Error(\"KB-A001\", ExitCode::values, \"why\");") ==
        Offences{"runtime/a.cpp:1: KB-A001 is thrown with ExitCode::values, and the table has "
                 "usage"});
  CHECK(check_exits_of("throw Error(\"KB-A001\", reason, \"why\");").empty());
}

}  // namespace kernbench::tidy::error_codes_test
