// `kernbench errors`, and the page that it writes.

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

#include "benches/errors/error_codes.h"
#include "test/benches/program_under_test.h"

namespace kernbench::test::cli_errors_test {

namespace {

using benches::errors::error_families;
using benches::errors::ErrorCode;
using benches::errors::ErrorFamily;
using Catch::Contains;

bool is_sentence(std::string_view text) {
  return text.size() > 10 && text.ends_with('.');
}

}  // namespace

TEST_CASE("codes ascend, have the letter of their family, and say two sentences", "[errors]") {
  std::string last;
  for (const ErrorFamily& family : error_families()) {
    for (const ErrorCode& one : family.codes) {
      CAPTURE(one.code);
      CHECK(last < one.code);
      last = one.code;
      CHECK(one.code.starts_with(std::string("KB-") + family.letter));
      CHECK(is_sentence(one.meaning));
      CHECK(is_sentence(one.cure));
      // Lists of errors in a file are thrown as one ConfigError, whatever their codes.
      CHECK((family.letter != 'Y' || one.exit_code == ExitCode::configuration));
    }
  }
}

TEST_CASE("errors lists all codes by letter, with exit codes and meanings", "[cli][errors]") {
  const ProgramResult all = run_program({"errors"});
  CHECK(all.exit_code == 0);
  CHECK_THAT(all.out, Contains("\nD: deadlocks, and what does not end\n"
                               "  KB-D001   20  Nothing can happen any more, and ranks or kernels "
                               "still wait.\n"));
  CHECK_THAT(all.out, Contains("\n  KB-I012    -  The flight record "));
  for (const ErrorFamily& family : error_families()) {
    for (const ErrorCode& one : family.codes) {
      CHECK_THAT(all.out, Contains("\n  " + std::string(one.code) + "  "));
    }
  }
}

TEST_CASE("errors says of a code what it means, how it ends, and what to do", "[cli][errors]") {
  const ProgramResult two = run_program({"errors", "KB-S001", "kb-t007"});
  CHECK(two.exit_code == 0);
  CHECK(two.out ==
        "KB-S001: exit code 130, 143 or 129, by the signal\n"
        "  The run was ended by SIGINT, SIGTERM or SIGHUP.\n"
        "  Give the same command again: with an output folder a sweep goes on from there.\n"
        "\n"
        "KB-T007: a warning\n"
        "  A layer with `sequence_parallel` has a single tensor parallel rank, so it does "
        "without.\n"
        "  Leave the option out, or use more ranks.\n");
  CHECK(run_program({"errors", "s001", "T007"}).out == two.out);
}

TEST_CASE("an error code that there is not is told with one that is near", "[cli][errors]") {
  const ProgramResult near = run_program({"errors", "KB-D0002"});
  CHECK(near.exit_code == 2);
  CHECK(near.err ==
        "kernbench: error: [KB-U020] no error code is named 'KB-D0002'; did you mean 'KB-D002'?\n"
        "  see: kernbench errors\n");
  const ProgramResult far = run_program({"errors", "KB-D001", "segfault"});
  CHECK(far.exit_code == 2);
  CHECK(far.out.empty());
  CHECK(far.err ==
        "kernbench: error: [KB-U020] no error code is named 'segfault'\n"
        "  see: kernbench errors\n");
}

TEST_CASE("the page of all codes is the one that errors writes", "[cli][errors]") {
  INFO("build/release/benches/kernbench errors --markdown error-codes.md");
  const std::string page = read_file(std::string(KERNBENCH_ROOT) + "/error-codes.md");
  const ProgramResult written = run_program({"errors", "--markdown", "-"});
  CHECK(written.exit_code == 0);
  CHECK((written.out == page));
  const TemporaryFolder folder;
  CHECK(run_program({"errors", "--markdown", folder.path("codes.md")}).out.empty());
  CHECK((folder.read("codes.md") == page));
  const ProgramResult both = run_program({"errors", "--markdown", "-", "KB-D001"});
  CHECK(both.exit_code == 2);
  CHECK_THAT(both.err, Contains("KB-U001") && Contains("--markdown"));
}

}  // namespace kernbench::test::cli_errors_test
