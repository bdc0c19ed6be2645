// The report of a run as a page: what --report writes.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "test/benches/program_under_test.h"

namespace kernbench::test::page_test {
namespace {

std::string page_of(const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  std::vector<std::string> words = {"run"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.insert(words.end(), {"--report", folder.path("r.html")});
  const ProgramResult result = run_program(words);
  REQUIRE(result.exit_code == 0);
  CHECK(result.out.find(folder.path("r.html")) != std::string::npos);
  return folder.read("r.html");
}

std::size_t count_of(const std::string& text, std::string_view word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
  return count;
}

bool has(const std::string& text, std::string_view word) {
  return text.find(word) != std::string::npos;
}

TEST_CASE("a report names its run and has all its sections", "[cli][page]") {
  const std::string page = page_of({"--bench", "tp-transformer", "--set", "tp=2"});
  for (const char* words : {"kernbench run --bench tp-transformer --topology default --set tp=2",
                            "fingerprint", "What each rank did", "<h2>When", "<h2>Critical path",
                            "all_reduce", "matmul", "sip0.link.east", "<h2>Units", "<h2>Roofline",
                            "What ranks waited for", "HBM that tensors hold"}) {
    CAPTURE(words);
    CHECK(has(page, words));
  }
}

TEST_CASE("a report shows when links were busy, and who holds memory", "[cli][page]") {
  const std::string page = page_of({"--bench", "ddp", "--set", "world=2", "bucket_cap_mb=1",
                                    "layers=1", "vocab=128", "hidden=32", "batch=1"});
  for (const char* words :
       {"When links were busy", "<title>sip0.link.east: busy for ",
        "optimizer state: ", "activation of module.blocks.0", "at the peak from"}) {
    CAPTURE(words);
    CHECK(has(page, words));
  }
  CHECK(!has(page, "<h2>What if"));
}

TEST_CASE("a report says which point it shows, and what it leaves out", "[cli][page]") {
  const std::string page =
      page_of({"--bench", "ddp", "--set", "world=2,66", "bucket_cap_mb=100", "scheme=ddp",
               "layers=1", "vocab=16", "hidden=16", "seq=8", "batch=1"});
  for (const char* words :
       {"the longest of 2 points", "The first 64 of 66 ranks.", "The first 16 of 66 ranks.",
        "which holds most of the first 16 of 66:"}) {
    CAPTURE(words);
    CHECK(has(page, words));
  }
}

TEST_CASE("a report shows the energy by unit, if it is asked for", "[cli][page][energy]") {
  std::vector<std::string> words = {"--bench", "gemm", "--set", "m=64", "n=64", "k=64"};
  CHECK_FALSE(has(page_of(words), "<h2>Energy"));
  words.emplace_back("--energy");
  const std::string page = page_of(words);
  CHECK(has(page, "<h2>Energy"));
  CHECK(has(page, "524288 FLOP"));  // 2 * 64^3
}

TEST_CASE("the report of whatif has its curves, and the run as it is", "[cli][page][whatif]") {
  const TemporaryFolder folder;
  const std::vector<std::string> words = {"--bench",  "ccl-allreduce", "--topology",
                                          "tiny",     "--set",         "n_elem=64",
                                          "--report", folder.path("r")};
  const auto page_by = [&](const std::string& command) {
    std::vector<std::string> all = {command};
    all.insert(all.end(), words.begin(), words.end());
    REQUIRE(run_program(all).exit_code == 0);
    return folder.read("r");
  };
  const std::string page = page_by("whatif");
  CHECK(has(page, "<h2>What if"));
  CHECK(has(page, "system.sip_link.latency x2: "));
  CHECK(has(page, "kernbench whatif --bench ccl-allreduce"));
  const std::string alone = page_by("run");
  const auto time_in = [](const std::string& text) {
    const std::size_t at = text.find("<dt>simulated");
    return text.substr(at, text.find("</dd>", at) - at);
  };
  CHECK(time_in(page) == time_in(alone));
}

TEST_CASE("a report loads nothing and runs nothing", "[cli][page]") {
  const std::string page = page_of({"--bench", "ccl-allreduce", "--topology", "tiny"});
  for (const char* word : {"<script", "http:", "https:", "url(", "@import", "<link", "<img"}) {
    CAPTURE(word);
    CHECK(!has(page, word));
  }
  for (const char* element : {"svg", "table", "section", "div", "style"}) {
    CAPTURE(element);
    CHECK(count_of(page, "<" + std::string(element)) ==
          count_of(page, "</" + std::string(element)));
  }
}

TEST_CASE("a report is small, however long the run", "[cli][page][exhaustive]") {
  CHECK(page_of({"--bench", "ccl-allreduce"}).size() < 500'000);
  CHECK(page_of({"--bench", "ccl-allreduce", "--topology", "ring_1d_6"}).size() < 500'000);
  CHECK(page_of({"--bench", "tp-transformer"}).size() < 500'000);
}

// ./test.sh names the tag where chromium is installed.
TEST_CASE("a browser opens a report and draws it", "[.browser]") {
  const TemporaryFolder folder;
  REQUIRE(run_program({"run", "--bench", "ccl-allreduce", "--topology", "tiny", "--report",
                       folder.path("r.html")})
              .exit_code == 0);
  const std::string command =
      "timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir=" +
      folder.path("profile") + " --dump-dom file://" + folder.path("r.html") + " > " +
      folder.path("dom") + " 2> " + folder.path("errors");
  CHECK(std::system(command.c_str()) == 0);
  const std::string dom = folder.read("dom");
  CHECK(has(dom, "What each rank did"));
  CHECK(!has(dom, "parsererror"));
  CHECK(!has(folder.read("errors"), "CONSOLE"));
}

}  // namespace
}  // namespace kernbench::test::page_test
