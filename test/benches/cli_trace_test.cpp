// Checks the files of --trace against the needs of the Perfetto UI.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "test/benches/program_under_test.h"

namespace kernbench::test::cli_trace_test {

using Json = nlohmann::json;

namespace {

Json trace_of(const std::string& topology) {
  const TemporaryFolder folder;
  const ProgramResult result = run_program(
      {"run", "--bench", "ccl-allreduce", "--topology", topology, "--set", "n_elem=1,1000",
       "--trace", folder.path("t.json"), "--trace-level", "units", "--json", "-"});
  REQUIRE(result.exit_code == 0);
  CHECK(Json::parse(result.out)["artifacts"] == Json::array({folder.path("t.json")}));
  return Json::parse(folder.read("t.json"))["traceEvents"];
}

// Microseconds with six decimals: exact picoseconds.
std::int64_t picoseconds(const Json& number) {
  return std::llround(number.get<double>() * 1e6);
}

struct Span {
  std::int64_t start;
  std::int64_t end;
};

// True if the spans of one track only follow each other or nest.
bool nest(std::vector<Span> spans) {
  std::ranges::sort(spans, [](const Span& a, const Span& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  std::vector<Span> open;
  for (const Span& span : spans) {
    while (!open.empty() && open.back().end <= span.start) open.pop_back();
    if (!open.empty() && span.end > open.back().end) return false;
    open.push_back(span);
  }
  return true;
}

}  // namespace

TEST_CASE("a trace has a process for each rank and SIP, and a named track for each unit",
          "[cli][trace]") {
  std::set<std::string> processes;
  std::set<std::pair<int, int>> named;
  std::set<std::pair<int, int>> used;
  std::set<std::string> tracks;
  for (const Json& event : trace_of("tiny")) {
    const std::pair<int, int> track = {event["pid"].get<int>(), event["tid"].get<int>()};
    if (event["ph"] == "X") used.insert(track);
    if (event["name"] == "process_name") processes.insert(event["args"]["name"]);
    if (event["name"] != "thread_name") continue;
    CHECK(named.insert(track).second);
    tracks.insert(event["args"]["name"]);
  }
  CHECK(processes == std::set<std::string>{"driver", "rank 0", "rank 1", "sip0", "sip1"});
  CHECK(std::ranges::includes(named, used));
  for (const char* unit :
       {"cube0.pe0.cpu", "cube0.pe0.load", "cube0.pe0.store", "cube1.pe0.math"}) {
    CHECK(tracks.contains(unit));
  }
}

TEST_CASE("traces without units are small: the default run's, and ring_1d_6's at its sizes",
          "[cli][trace]") {
  const auto size_of = [](const std::string& topology) {
    const TemporaryFolder folder;
    const ProgramResult result = run_program({"run", "--bench", "ccl-allreduce", "--topology",
                                              topology, "-q", "--trace", folder.path("t.json")});
    REQUIRE(result.exit_code == 0);
    return folder.read("t.json").size();
  };
  CHECK(size_of("default") < 5'000'000);
  CHECK(size_of("ring_1d_6") < 20'000'000);
}

using Tracks = std::map<std::pair<int, int>, std::vector<Span>>;

Tracks tracks_of(const Json& events) {
  Tracks tracks;
  for (const Json& event : events) {
    if (event["ph"] != "X") continue;
    const std::int64_t start = picoseconds(event["ts"]);
    const std::int64_t end = start + picoseconds(event["dur"]);
    if (end < start) FAIL_CHECK("a span ends before it starts: " << event);
    tracks[{event["pid"].get<int>(), event["tid"].get<int>()}].push_back({start, end});
  }
  return tracks;
}

void check_nesting(const Tracks& tracks) {
  for (const auto& [track, list] : tracks) {
    if (!nest(list)) FAIL_CHECK("pid " << track.first << " tid " << track.second);
  }
}

TEST_CASE("spans of one track never overlap but by nesting", "[cli][trace]") {
  for (const std::string topology : {"tiny", "torus_2d_2x3", "mesh_2d_no_wrap_2x3"}) {
    CAPTURE(topology);
    const Tracks tracks = tracks_of(trace_of(topology));
    CHECK(tracks.size() > 10);
    check_nesting(tracks);
  }
}

// Packets of transfers that share a link take turns on it.
TEST_CASE("spans of one track never overlap but by nesting, in any bench", "[cli][trace]") {
  using Words = std::vector<std::string>;
  const Words bench =
      GENERATE(Words{"collectives", "--set", "collective=all_to_all", "begin=64Ki", "end=64Ki"},
               Words{"gemm", "--set", "m=256", "n=256", "k=256", "on=cube", "check=false"},
               Words{"kernels", "--topology", "tiny", "--set", "function=attention", "size=8Ki"},
               Words{"ipcq", "--set", "messages=16"},
               Words{"overlap", "--topology", "tiny", "--set", "bytes=64Ki", "gemm=64", "loads=10"},
               Words{"tp-mlp", "--set", "tp=2", "hidden=64", "tokens=32"},
               Words{"tp-transformer", "--topology", "tiny", "--set", "tp=2"},
               Words{"ddp", "--set", "world=2", "bucket_cap_mb=1", "layers=1", "vocab=64",
                     "hidden=64", "batch=1"},
               Words{"train", "--topology", "tiny", "--set", "steps=1", "hidden=16"});
  const std::string level = GENERATE("kernels", "units");
  CAPTURE(bench, level);
  const TemporaryFolder folder;
  Words words = {"run", "--bench"};
  words.insert(words.end(), bench.begin(), bench.end());
  words.insert(words.end(), {"--trace", folder.path("t.json"), "--trace-level", level});
  const ProgramResult result = run_program(words);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  const Tracks tracks = tracks_of(Json::parse(folder.read("t.json"))["traceEvents"]);
  CHECK(!tracks.empty());
  check_nesting(tracks);
}

TEST_CASE("every arrow begins once and ends once, later", "[cli][trace]") {
  for (const std::string topology : {"tiny", "ring_1d_6"}) {
    std::map<int, std::vector<std::int64_t>> begins;
    std::map<int, std::vector<std::int64_t>> ends;
    for (const Json& event : trace_of(topology)) {
      if (event["ph"] == "s") begins[event["id"]].push_back(picoseconds(event["ts"]));
      if (event["ph"] == "f") ends[event["id"]].push_back(picoseconds(event["ts"]));
    }
    CHECK(begins.size() > 10);
    REQUIRE(begins.size() == ends.size());
    for (const auto& [id, begin] : begins) {
      const std::vector<std::int64_t>& end = ends[id];
      const bool is_pair = begin.size() == 1 && end.size() == 1;
      if (!is_pair || end.front() <= begin.front()) FAIL_CHECK(topology << ": arrow " << id);
    }
  }
}

TEST_CASE("the traces of ranks of an earlier run make way", "[cli][trace]") {
  const TemporaryFolder folder;
  folder.write("ranks.json", "mine");
  const auto names_of = [&](const std::string& topology) {
    CHECK(run_program({"run", "--bench", "ccl-allreduce", "--topology", topology, "--set",
                       "n_elem=64", "--kineto", folder.path("")})
              .exit_code == 0);
    return folder.names();
  };
  CHECK(names_of("ring_1d_6") == std::vector<std::string>{"rank0.json", "rank1.json", "rank2.json",
                                                          "rank3.json", "rank4.json", "rank5.json",
                                                          "ranks.json"});
  CHECK(names_of("tiny") == std::vector<std::string>{"rank0.json", "rank1.json", "ranks.json"});
}

}  // namespace kernbench::test::cli_trace_test
