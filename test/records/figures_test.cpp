#include "test/records/figures.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace kernbench::records::figures_test {

namespace {

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a figure needs a command or a file in its block", "[records]") {
  CHECK(unheld_figures("A ring takes 4.75 us.\n") == Texts{"4.75 us"});
  CHECK(unheld_figures("A ring takes 4.75 us (`run --bench collectives`).\n").empty());
  CHECK(unheld_figures("It hides 92 % of it: `test/ccl/overlap_test.cpp`.\n").empty());
  CHECK(unheld_figures("It hides 92 % of it, says `TensorBase`.\n") == Texts{"92 %"});
  CHECK(unheld_figures("1.04 of the bound\n\n`./test.sh` runs it.\n") ==
        Texts{"1.04 of the bound"});
}

TEST_CASE("what is no measured figure needs nothing", "[records]") {
  CHECK(unheld_figures("Stacks have 256 KiB, of 8 PEs, in `4.75 us`.\n\n# ADR-0033: x\n").empty());
}

TEST_CASE("refused options are history", "[records]") {
  CHECK(unheld_figures("## Refused\n\nIt took 3 times as long.\n\n## Consequences\n\n1.5 ms\n") ==
        Texts{"1.5 ms"});
}

TEST_CASE("a table belongs to the line that introduces it", "[records]") {
  const std::string table = "\n| P | time |\n|---|---|\n| 4 | 3.1 us |\n";
  CHECK(unheld_figures("Shown by `run --bench ipcq`:\n" + table).empty());
  CHECK(unheld_figures("Times:\n" + table) == Texts{"3.1 us"});
}

TEST_CASE("paths are read from code spans", "[records]") {
  CHECK(named_paths("`test/a_test.cpp`, `ccl/b/c.h` and `test/a_test.cpp`; test/no_span.cpp, "
                    "`ccl.yaml`, `out/trace.txt`") == Texts{"ccl/b/c.h", "test/a_test.cpp"});
}

}  // namespace kernbench::records::figures_test
