// kernbench whatif, --plot and the operators' own sizes, as a user gives them.

#include "benches/variants/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <regex>

#include "benches/variants/row_plot.h"
#include "benches/variants/variants.h"
#include "benches/variants/what_helps.h"
#include "sim_engine/base/error.h"
#include "test/benches/program_json.h"
#include "test/support/error_text.h"

namespace kernbench::test::what_if_test {

using namespace benches;
using Catch::Contains;
using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

namespace {

Json report_of(const Words& words) {
  return json_of(run_program(words));
}

// The row of tiny, in which a resource has another speed.
Json row_of(const Json& report, const std::string& resource, const std::string& speed) {
  for (Json row : report["rows"]) {
    if (row["resource"] != resource || row["speed"] != speed) continue;
    row.erase("resource");
    row.erase("speed");
    return row;
  }
  FAIL("no row of " << resource << " " << speed);
  return {};
}

const Words kAllReduce = {"--bench", "ccl-allreduce", "--topology", "tiny",
                          "--set",   "n_elem=49152",  "--json",     "-"};

Words with(const std::string& command, const Words& words) {
  Words all = {command};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

Row point(const std::string& size, double time_ns, const std::string& algorithm) {
  return Row().set("size", size).set("time_ns", time_ns).set("algorithm", algorithm);
}

}  // namespace

TEST_CASE("twice as fast equals the run with that topology, bit for bit", "[whatif]") {
  const TemporaryFolder folder;
  const std::string tiny = read_file(KERNBENCH_ROOT "/topologies/tiny.yaml");
  const Json report = report_of(with("whatif", kAllReduce));
  const Json alone = report_of(with("run", kAllReduce));
  CHECK(row_of(report, "none", "x1") == alone["rows"][0]);
  const std::map<std::string, std::string> keys = {{"system.sip_link.bandwidth", "sip_link"},
                                                   {"sip.ucie.bandwidth", "ucie"}};
  for (const auto& [key, section] : keys) {
    CAPTURE(key);
    const std::size_t at = tiny.find(section + ":");
    const std::size_t value = tiny.find("bandwidth: ", at) + 11;
    const std::size_t end = tiny.find(" GB/s", value);
    std::string doubled = tiny;
    doubled.replace(value, end - value,
                    fmt::format("{}", 2 * std::stoi(tiny.substr(value, end - value))));
    Words words = with("run", kAllReduce);
    words[4] = folder.write("tiny.yaml", doubled);
    CHECK(row_of(report, key, "x2") == report_of(words)["rows"][0]);
  }
  CHECK(row_of(report, "system.sip_link.bandwidth", "x2") != row_of(report, "none", "x1"));
}

TEST_CASE("what-if says what each resource buys, the most first", "[whatif]") {
  const TemporaryFolder folder;
  const ProgramResult result =
      run_program({"whatif", "--bench", "ccl-allreduce", "--topology", "tiny", "--set",
                   "n_elem=49152", "--out", folder.path("out")});
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("# time_ns, summed over the rows: "));
  CHECK_THAT(result.out, Contains("# Twice as fast, system.host_link.latency buys most"));
  const std::string csv = folder.read("out/whatif.csv");
  CHECK(
      csv.starts_with("resource,value,x2,x4,infinite,only_limit_ns\r\n"
                      "system.host_link.latency,"));
  CHECK_THAT(folder.read("out/whatif_curves.csv"), Contains("\r\n3,"));
  CHECK_THAT(folder.read("out/whatif.gp"), Contains("'system.sip_link.bandwidth'"));
}

TEST_CASE("the times of a protocol are resources", "[whatif]") {
  const Json report = report_of({"whatif", "--bench", "collectives", "--topology", "h100_8",
                                 "--set", "begin=64Ki", "end=64Ki", "check=0", "--json", "-"});
  const double as_it_is = row_of(report, "none", "x1")["in_place_time_ns"];
  const double halved = row_of(report, "protocols.LL128.start", "x2")["in_place_time_ns"];
  CHECK(as_it_is - halved == 11'500.0 / 2);  // a call waits for it once
  CHECK(row_of(report, "protocols.LL.start", "x2")["in_place_time_ns"] == as_it_is);
}

TEST_CASE("what-if says why a faster resource makes a run slower", "[whatif]") {
  const ProgramResult result =
      run_program({"whatif", "--bench", "ccl-allreduce", "--topology", "tiny", "--set",
                   "n_elem=65536", "algorithm=tree_allreduce"});
  REQUIRE(result.exit_code == 0);
  // A chunk of 16 KiB of another PE goes first over the link of 64 GB/s.
  CHECK_THAT(result.out, Contains("# cube.hbm.bandwidth infinite is slower, 0.975: on its critical "
                                  "path queue takes 0.441 us more; in 8 further orders\n"));
  // A resource that is slower in some orders alone is so by chance.
  CHECK_THAT(result.out, Contains("# pe.mmu.latency x4 is slower, "));
  CHECK_THAT(result.out, Contains(" as it is: chance decides.\n"));
}

TEST_CASE("with everything infinite nothing takes time, and one resource takes its bound or more",
          "[whatif]") {
  const Json report = report_of(with("whatif", kAllReduce));
  CHECK(row_of(report, "all", "infinite")["time_ns"] == 0);
  const Json link = row_of(report, "system.sip_link.bandwidth", "all but it");
  CHECK(link["lower_bound_ns"] == 2 * 49152 / 64);  // half of the bytes, each way, twice
  CHECK(link["time_ns"] >= link["lower_bound_ns"]);
}

namespace {

// The sentence of an explanation about the resource that helps most.
struct Sentence {
  std::string key;
  std::string value;
  std::string time_us;
};

Sentence first_sentence(const std::string& text) {
  const std::regex form(
      "what helps, by running again\n(\\S+) twice as fast, (.+) instead of .+: "
      "(\\S+) us, \\S+ times as fast\n");
  std::smatch found;
  REQUIRE(std::regex_search(text, found, form));
  return {found[1], found[2], found[3]};
}

// Returns the text of a run's output that the first group of the form matches.
std::string find_us(const ProgramResult& result, const std::string& form) {
  std::smatch found;
  REQUIRE(std::regex_search(result.out, found, std::regex(form)));
  return found[1];
}
std::string simulated_us(const ProgramResult& result) {
  return find_us(result, "simulated     (\\S+) us");
}
std::string explained_us(const ProgramResult& result) {
  return find_us(result, "\nwhere (\\S+) us went");
}

}  // namespace

TEST_CASE("an explanation ends with what helps, and running it gives that time", "[explain]") {
  const Words run = {"run",  "--bench", "ccl-allreduce", "--topology",
                     "tiny", "--set",   "n_elem=49152",  "dtype=f32"};
  Words explained = run;
  explained.emplace_back("--explain");
  const ProgramResult result = run_program(explained);
  REQUIRE(result.exit_code == 0);
  const Sentence sentence = first_sentence(result.out);
  Words faster = run;
  faster.push_back(sentence.key + "=" + sentence.value);
  faster.emplace_back("--explain");
  CHECK(explained_us(run_program(faster)) == sentence.time_us);
  const std::string screen = result.out.substr(result.out.find("\nwhere ") + 1);
  CHECK(std::ranges::count(screen, '\n') <= 40);
  CHECK(simulated_us(result) == simulated_us(run_program(run)));  // reruns are not part of the run
}

// Not all of its rows have the column of times.
TEST_CASE("what-if asks about the steps of a bench that has several tables", "[whatif]") {
  const ProgramResult result =
      run_program({"whatif", "--bench", "tp-transformer", "--topology", "tiny", "--set", "tp=2",
                   "check=false", "hidden=64", "heads=2", "seq=32"});
  CHECK(result.err.empty());
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("# step_ns, summed over the rows: ") &&
                             Contains("# Twice as fast, system.host_link.issue buys most"));
}

TEST_CASE("a bandwidth of powers of two is doubled exactly", "[whatif]") {
  const BenchInfo info{"copies", "", {}, nullptr};
  const variants::VariantMaker maker(
      {.bench = &info, .topologies = "tiny", .assignments = {"sip.ucie.bandwidth=1.25 GiB/s"}});
  const auto faster = variants::twice_as_fast(maker, "sip.ucie.bandwidth");
  REQUIRE(faster);
  CHECK(faster->value == "2.5 GiB/s");
}

TEST_CASE("a summary tells the phases of a step", "[summary]") {
  const ProgramResult result =
      run_program({"run", "--bench", "tp-mlp", "--topology", "tiny", "--set", "tp=2", "--summary"});
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("\naddmm, forward "));
  CHECK_THAT(result.out, Contains("\nmatmul, backward "));
  CHECK_THAT(result.out, Contains("\nlaunches of rank "));
}

TEST_CASE("of a grid the combination that takes longest is explained", "[explain]") {
  const ProgramResult result =
      run_program({"run", "--bench", "ccl-allreduce", "--topology", "tiny", "--set", "n_elem=49152",
                   "system.sip_link.latency=1,1000 us", "--explain"});
  REQUIRE(result.exit_code == 0);
  CHECK(first_sentence(result.out).key == "system.sip_link.latency");
  CHECK(first_sentence(result.out).value == "500 us");
  CHECK_THAT(result.out,
             Contains(", the longest of 2 points; give one value in --set for another"));
  CHECK_THAT(result.out, Contains("#   explained     system.sip_link.latency=1000 us, the"));
}

TEST_CASE("the keys on a path are those of its rows, by their shares", "[explain]") {
  runtime::CriticalPath path;
  path.rows = {{.cause = sim::Cause::bytes, .link_class = sim::UnitClass::link, .total = Time{500}},
               {.cause = sim::Cause::launch, .total = Time{300}},
               {.cause = sim::Cause::host, .total = Time{400}},
               {.cause = sim::Cause::queue, .link_class = sim::UnitClass::ucie, .total = Time{180}},
               {.cause = sim::Cause::issue, .total = Time{19}},
               {.cause = sim::Cause::poll, .total = Time{1}}};
  CHECK(variants::keys_on(Topology{}, path) ==
        Words{"system.host_link.issue", "system.sip_link.bandwidth", "system.host_link.latency",
              "sip.ucie.bandwidth"});
}

TEST_CASE("what-if wants one run and a time", "[whatif][errors]") {
  const auto error_of = [](const Words& words) {
    const ProgramResult result = run_program(words);
    CHECK(result.exit_code == 2);
    return result.err;
  };
  CHECK_THAT(error_of({"whatif", "--bench", "gemm", "--topology", "tiny", "--set", "m=8,16"}),
             test::Says("KB-U016", "--set", "2"));
  CHECK_THAT(error_of({"whatif", "--bench", "gemm", "--topology", "tiny", "--set", "m=8", "n=8",
                       "k=8", "--metric", "tim"}),
             test::Says("KB-U017", "--metric", "'tim'"));
}

TEST_CASE("a plot has its points by series and place", "[plot]") {
  const std::vector<Row> rows = {point("128 GB/s", 2000, "ring"), point("64 GB/s", 4000, "ring"),
                                 point("64 GB/s", 3000, "tree")};
  const variants::RowPlot plot = variants::make_plot(
      rows, variants::parse_plot("x=size,y=time,by=algorithm"), "t", "plot.csv");
  CHECK(to_csv(plot.points) == "x,y,series\r\n64,4,ring\r\n128,2,ring\r\n64,3,tree\r\n");
  const auto value = [&](std::string_view name) {
    for (const auto& [key, held] : plot.chart.values) {
      if (key == name) return std::get<std::string>(held);
    }
    return std::string();
  };
  CHECK(value("x_title") == "size (GB/s)");
  CHECK(value("y_title") == "time (us)");
}

TEST_CASE("places that are no numbers of one unit stand beside each other", "[plot]") {
  const std::vector<Row> rows = {point("unlimited", 1, "a"), point("64 GB/s", 2, "a")};
  CHECK(to_csv(variants::make_plot(rows, {.x = "size", .y = "time_ns"}, "t", "plot.csv").points) ==
        "x,y,series\r\n0,0.001,time_ns\r\n1,0.002,time_ns\r\n");
}

TEST_CASE("a plot that cannot be drawn is told", "[plot][errors]") {
  CHECK_THROWS_WITH(variants::parse_plot("x=a"),
                    Contains("[KB-U018] --plot 'x=a': expected x=COLUMN"));
  CHECK_THROWS_WITH(variants::parse_plot("x=a,y=b,z=c"), Contains("[KB-U018]"));
  const std::vector<Row> rows = {point("64 GB/s", 2, "a")};
  CHECK_THROWS_WITH(variants::make_plot(rows, {.x = "sise", .y = "time"}, "t", "plot.csv"),
                    Contains("the rows have no column 'sise'; did you mean 'size'?"));
  CHECK_THROWS_WITH(variants::make_plot(rows, {.x = "size", .y = "algorithm"}, "t", "plot.csv"),
                    Contains("no row has a number in 'algorithm'"));
  const ProgramResult result =
      run_program({"run", "--bench", "gemm", "--topology", "tiny", "--plot", "x=m,y=time"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, Contains("[KB-U018] --plot: give --out DIR"));
}

TEST_CASE("a grid is drawn from its rows", "[plot]") {
  const TemporaryFolder folder;
  const ProgramResult result =
      run_program({"run", "--bench", "gemm", "--topology", "tiny", "--set", "m=64,128", "n=64",
                   "k=64", "pe.gemm.clock=1,2 GHz", "--plot", "x=m,y=time,by=pe.gemm.clock",
                   "--out", folder.path("out"), "--quiet"});
  REQUIRE(result.exit_code == 0);
  CHECK(result.out.empty());
  CHECK(result.err.empty());
  CHECK_THAT(folder.read("out/plot.csv"), Contains(",2 GHz\r\n"));
  CHECK_THAT(folder.read("out/plot.gp"), Contains("'1 GHz', '2 GHz'"));
}

TEST_CASE("bench takes what run takes, and sizes of one's own", "[operator_command]") {
  const TemporaryFolder folder;
  const Json report = json_of(
      run_program({"bench", "--topology", "tiny", "--case", "swiglu", "--set", "batch_size=1",
                   "seq_len=64,128", "dim=256", "pe.math.clock=2 GHz", "--json", "-"},
                  {.program = MY_OPERATORS_PROGRAM, .folder = folder.path("")}));
  CHECK(report["set"]["pe.math.clock"] == "2 GHz");
  std::vector<int> timed;
  for (const Json& row : report["rows"]) {
    if (row.contains("SpeedUp")) timed.push_back(row["seq_len"]);
  }
  CHECK(timed == std::vector<int>{64, 64, 128, 128});
}

TEST_CASE("bash completes commands, options, benches, topologies and keys", "[cli][completion]") {
  const auto complete = [](const Words& words) {
    const ProgramResult result = run_program(with("complete", words));
    CHECK(result.exit_code == 0);
    return result.out;
  };
  CHECK(complete({"wh"}) == "whatif\n");
  CHECK(complete({"run", "--be"}) == "--bench\n");
  CHECK(complete({"run", "--bench", "tp-"}) == "tp-mlp\ntp-transformer\n");
  CHECK(complete({"run", "--topology", "torus"}) == "torus_2d_2x3\ntorus_2d_3x2\n");
  CHECK(complete({"run", "--bench", "tp-mlp", "--set", "sip.ucie."}) ==
        "sip.ucie.bandwidth=\nsip.ucie.latency=\n");
  CHECK(complete({"run", "--bench", "tp-mlp", "--set", "tp=2", "hid"}) == "hidden=\n");
  CHECK(complete({"run", "--bench", "tp-mlp", "--uncertain", "sip.ucie.lat"}) ==
        "sip.ucie.latency=\n");
  CHECK(complete({"bench", "--case", "add"}) == "add_rms\n");
  CHECK(complete({"probe", "pa"}) == "path\n");
  CHECK(complete({"errors", "KB-D00"}) == "KB-D001\nKB-D002\nKB-D003\nKB-D004\nKB-D005\n");
  const ProgramResult script = run_program({"completion", "bash"});
  CHECK(script.exit_code == 0);
  CHECK_THAT(script.out, Contains("complete -o default -F _kernbench kernbench\n"));
  CHECK(run_program({"completion", "fish"}).exit_code == 2);
}

TEST_CASE("verbose shows a line for each system", "[cli]") {
  const ProgramResult result = run_program({"run", "--bench", "collectives", "--topology", "tiny",
                                            "--set", "begin=64", "end=64", "--verbose"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("system  simulated_us"));
}

}  // namespace kernbench::test::what_if_test
