// kernbench run --bench ipcq: a stream never exceeds its bounds, and reaches them.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>

#include "test/benches/program_json.h"
#include "test/support/error_text.h"

namespace kernbench::test::ipcq_bench_test {

using Catch::Contains;
using Json = nlohmann::ordered_json;

namespace {

ProgramResult run_ipcq(const std::string& topology, const std::vector<std::string>& settings) {
  std::vector<std::string> arguments = {"run",    "--bench", "ipcq", "--topology",
                                        topology, "--json",  "-"};
  for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
  return run_program(arguments);
}

Json rows_of(const std::string& topology, const std::vector<std::string>& settings) {
  const Json report = json_of(run_ipcq(topology, settings));
  CHECK(report["ok"] == true);
  return report["rows"];
}

}  // namespace

// One link of 50 GB/s and 500 ns is all that takes time: 4096 B need 81.92 ns on it and 16384 B
// 327.68 ns, a credit's 16 B 0.32 ns.
TEST_CASE("where only a link takes time a stream is as fast as the lower of its bounds",
          "[cli][ipcq]") {
  const auto check = [](std::int64_t slot, double round_trip_ns) {
    for (const int depth : {1, 2, 3, 4, 8, 32}) {
      const Json row = rows_of(
          "zero_overhead",
          {fmt::format("slot={}", slot), fmt::format("depth={}", depth), "buffer_kind=sram"})[0];
      const double credits = static_cast<double>(depth * slot) / round_trip_ns;
      CAPTURE(slot, depth);
      CHECK(row["round_trip_ns"] == round_trip_ns);
      CHECK(row["credit_bound_gbs"].get<double>() == Approx(credits).epsilon(1e-12));
      CHECK(row["link_gbs"] == 50);
      CHECK(row["limit"] == (credits < 50 ? "credits" : "link"));
      CHECK(row["measured_gbs"].get<double>() == Approx(std::min(credits, 50.0)).epsilon(1e-12));
      CHECK(row["reached"].get<double>() == Approx(1).epsilon(1e-12));
      CHECK(row["wrong"] == 0);
    }
  };
  check(4096, 500 + 81.92 + 500 + 0.32);
  check(16384, 500 + 327.68 + 500 + 0.32);
}

// Over TCM (2 ns), NoC (4), UCIe (16), the link between SIPs (300 ns, 64 GB/s), UCIe, NoC and TCM
// to the other SIP; the credit back without the TCMs.  PE_CPU 2 ns, and for the push and the pop
// PE_SCHEDULER 2, DMA 10, PE_IPCQ 2 each; the pop 2 + 2 ns at 1024 GB/s.
TEST_CASE("every overhead is in the round trip", "[cli][ipcq]") {
  const Json row =
      rows_of("default", {"slot=16384", "depth=1", "buffer_kind=tcm", "messages=1000"})[0];
  const double there = 14 + 344 + 16384 / 64.0;
  const double taken = 14 + 4 + 16384 / 1024.0;
  const double credit = 340 + 0.25;
  CHECK(row["round_trip_ns"] == 2 + there + taken + credit);
  CHECK(row["messages"] == 1001);
  CHECK(row["reached"] <= 1);
  CHECK(row["reached"] > 0.9999);
}

TEST_CASE("no stream exceeds its bounds, wherever its queue lies", "[cli][ipcq]") {
  for (const std::string topology : {"default", "tiny", "torus_2d_2x3", "mesh_2d_no_wrap_2x3"}) {
    for (const std::string port : {"global_east", "east"}) {
      if (topology == "tiny" && port == "east") continue;  // it has one cube
      const Json rows =
          rows_of(topology, {"port=" + port, "messages=40", "depth=1,3,7", "slot=4,1000,16384"});
      CHECK(rows.size() == 27);
      for (const Json& row : rows) {
        CAPTURE(topology, row.dump());
        CHECK(row["port"] == port);
        CHECK(row["wrong"] == 0);
        CHECK(row["measured_gbs"].get<double>() > 0);
        CHECK(row["reached"].get<double>() <= 1 + 1e-12);
        CHECK(row["measured_gbs"].get<double>() <=
              row["credit_bound_gbs"].get<double>() * (1 + 1e-12));
        CHECK(row["measured_gbs"].get<double>() <= row["link_gbs"].get<double>() * (1 + 1e-12));
      }
    }
  }
}

TEST_CASE("a stream whose ends look every so often is slower", "[cli][ipcq]") {
  const auto rate = [](const std::string& wait) {
    const Json row = rows_of("default", {"wait=" + wait, "depth=2", "slot=4096"})[0];
    CHECK(row["wait"] == wait);
    return row["measured_gbs"].get<double>();
  };
  CHECK(rate("poll") < rate("sleep"));
}

TEST_CASE("a port without neighbour is refused", "[cli][ipcq][errors]") {
  const ProgramResult result = run_ipcq("default", {"port=north"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, test::Says("KB-U012", "--set", "sip0.cube0.pe0", "'default'"));
  CHECK_THAT(run_ipcq("default", {"port=up"}).err,
             Contains("[KB-U012] --set port: 'up' is not known"));
}

}  // namespace kernbench::test::ipcq_bench_test
