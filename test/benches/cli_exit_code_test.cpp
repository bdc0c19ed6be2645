// Tests the texts and exit codes of a wrong command line, a wrong file and a full disk.

#include <catch2/catch.hpp>

#include "test/benches/program_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::cli_exit_code_test {

using Catch::Contains;
using Catch::StartsWith;

namespace {

std::vector<std::string> small_run(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"run",  "--bench", "ccl-allreduce", "--topology",
                                        "tiny", "--set",   "n_elem=64"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<std::string> gemm(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"probe", "gemm", "--n", "64", "--k", "64"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

TEST_CASE("a training that diverges says in which step, without a sign", "[cli][errors]") {
  const ProgramResult result =
      run_program({"run", "--bench", "train", "--set", "steps=4", "lr=1e30"});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, Contains("kernbench: error: [KB-B003] row ") && Contains(": step ") &&
                             Contains(": the loss is nan\n"));
  CHECK_THAT(result.out, Contains(" nan ") && !Contains("-nan"));
}

TEST_CASE("every command has help with an example", "[cli]") {
  const std::vector<std::vector<std::string>> commands = {
      {},        {"list"},          {"errors"},         {"run"},
      {"bench"}, {"probe", "path"}, {"probe", "bound"}, {"probe", "gemm"}};
  for (std::vector<std::string> arguments : commands) {
    for (const std::string option : {"--help", "-h"}) {
      auto asked = arguments;
      asked.push_back(option);
      const ProgramResult result = run_program(asked);
      CHECK(result.exit_code == 0);
      CHECK_THAT(result.out, Contains("Example") && Contains("  kernbench "));
      CHECK(result.err.empty());
    }
  }
  CHECK(run_program({"probe", "--help"}).exit_code == 0);
  CHECK(run_program({"--version"}).out == "kernbench 0.1.0\n");
}

TEST_CASE("a wrong command line is told with what would be right", "[cli][errors]") {
  using Case = std::pair<std::vector<std::string>, test::Says>;
  const std::vector<Case> cases = {
      {{}, test::Says("KB-U001", "subcommand", "kernbench --help")},
      {{"rum"}, test::Says("KB-U001", "'rum'", "'run'", "kernbench --help")},
      {{"run"}, test::Says("KB-U001", "--bench", "required", "kernbench run --help")},
      {{"run", "--bench", "x", "--topolgy=y"},
       test::Says("KB-U001", "'--topolgy'", "'--topology'", "kernbench run --help")},
      {{"run", "--bench", "ccl-allreduse"},
       test::Says("KB-U002", "'ccl-allreduse'", "'ccl-allreduce'")},
      {{"run", "--bench", "ccl-allreduce", "--topology", "rin_1d_6"},
       test::Says("KB-U004", "'rin_1d_6'", "'ring_1d_6'")},
      {{"run", "--bench", "ccl-allreduce", "--json", "-", "--csv", "-"},
       test::Says("KB-U001", "one of", "--json", "--csv", "--trace", "--report")},
      {small_run({"--set", "n_elm=4"}),
       test::Says("KB-U011", "--set", "'n_elm'", "'n_elem'", "ccl-allreduce")},
      {small_run({"--seed", "-1"}), test::Says("KB-U012", "--seed", "'-1'", "0", "2^64 - 1")},
      {small_run({"--seed", "1x"}), test::Says("KB-U012", "--seed", "'1x'", "0", "2^64 - 1")},
      {small_run({"--shuffle-ties", "first"}),
       test::Says("KB-U012", "--shuffle-ties", "'first'", "0", "2^64 - 1")},
      {small_run({"--tie-orders", "-1"}),
       test::Says("KB-U012", "--tie-orders", "'-1'", "1", "1000")},
      {small_run({"--tie-orders", "0"}),
       test::Says("KB-U012", "--tie-orders", "'0'", "from 1 to 1000")},
      {small_run({"--trace-level", "units"}),
       test::Says("KB-U012", "--trace-level units", "no effect", "--trace FILE")},
      {{"probe", "choose", "--collective", "all_reduce", "--lanes", "0"},
       test::Says("KB-U012", "--lanes", "'0'", "1", "128")},
      {{"run", "--bench", "calibrate"},
       test::Says("KB-U012", "csv=FILE", "bytes,all_reduce_us", "--topology h100_8",
                  "published.csv")},
      {small_run({"--jobs", "0"}), test::Says("KB-U012", "--jobs", "'0'", "1", "1024")},
      {small_run({"--jobs", "two"}), test::Says("KB-U012", "--jobs", "'two'", "1", "1024")},
      {small_run({"--set", "dtype=f61"}), test::Says("KB-U012", "--set dtype", "'f61'", "'f16'")},
      {small_run({"--set", "algorithm=intercube_alreduce"}),
       test::Says("KB-U003", "'intercube_alreduce'", "'intercube_allreduce'")},
      {{"probe", "path", "--from", "sip0", "--to", "sip0.cube0.pe0", "--bytes", "1"},
       test::Says("KB-U012", "--from", "'sip0'", "sip0.cube0.pe0")},
      {{"probe", "path", "--from", "sip0.cube0.pe0", "--to", "sip2.cube0.pe0", "--bytes", "1"},
       test::Says("KB-U012", "--to", "sip2.cube0.pe0", "sip1", "cube15", "pe7")},
      {{"probe", "bound", "--bytes", "1", "--collective", "all_reduc"},
       test::Says("KB-U005", "'all_reduc'", "'all_reduce'")},
      {{"probe", "gemm", "--m", "4", "--n", "4"},
       test::Says("KB-U001", "--k", "required", "kernbench probe gemm --help")},
      {gemm({"--m", "0"}), test::Says("KB-U012", "--m", "'0'", "1", "999999999999999999")},
      {gemm({"--m", "4.5"}), test::Says("KB-U012", "--m", "'4.5'", "integer")},
      {gemm({"--m", "1", "--rows", "0"}), test::Says("KB-U012", "--rows", "'0'", "1", "1048576")},
      {gemm({"--m", "1", "--columns", "99999999"}),
       test::Says("KB-U012", "--columns", "'99999999'", "1", "1048576")},
      {gemm({"--m", "1", "--dataflow", "output_stationery"}),
       test::Says("KB-U012", "--dataflow", "'output_stationery'", "'output_stationary'")},
      {gemm({"--m", "999999999999999999", "--rows", "1"}),
       test::Says("KB-U012", "--m 999999999999999999", "--n 64", "--k 64", "64 bits")},
  };
  for (const auto& [arguments, text] : cases) {
    const ProgramResult result = run_program(arguments);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, StartsWith("kernbench: error: "));
    CHECK_THAT(result.err, text);
  }
  CHECK_THAT(run_program({"run", "--bench", "xyz"}).err,
             StartsWith("kernbench: error: [KB-U002] no bench is named 'xyz'; there are: ") &&
                 Contains("ccl-allreduce, "));
}

TEST_CASE("a refused setting comes before any table", "[cli][errors]") {
  for (const auto& [bench, setting] :
       std::vector<std::pair<std::string, std::string>>{{"ipcq", "depth=0"},
                                                        {"ipcq", "buffer_kind=abc"},
                                                        {"overlap", "gemm=0"},
                                                        {"tp-mlp", "check=maybe"},
                                                        {"milestone-1h-gemm", "on=nothing"},
                                                        {"train", "heads=3"},
                                                        {"train", "pes=3"},
                                                        {"ddp", "bucket_cap_mb=1e9"}}) {
    CAPTURE(bench, setting);
    const ProgramResult result =
        run_program({"run", "--bench", bench, "--topology", "tiny", "--set", setting});
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, StartsWith("kernbench: error: [KB-U012]"));
  }
  const ProgramResult large =
      run_program({"run", "--bench", "ccl-allreduce", "--topology", "tiny", "--set", "n_elem=4Gi"});
  CHECK(large.exit_code == 71);
  CHECK_THAT(large.out, !Contains("algbw"));
  CHECK_THAT(large.err, Contains("[KB-L001]"));
}

TEST_CASE("an option without a value is refused, whichever it is", "[cli][errors]") {
  for (const std::string option : {"--out", "--json", "--csv", "--trace", "--ccl", "--topology",
                                   "--seed", "--jobs", "--set", "--bench"}) {
    const ProgramResult result = run_program(small_run({option, ""}));
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, StartsWith("kernbench: error: [KB-U0"));
    CHECK(result.out.empty());
  }
  CHECK_THAT(run_program(small_run({"--out", ""})).err,
             test::Says("KB-U012", "--out", "expected", "nothing", "option"));
  CHECK(run_program({"list", "--json="}).exit_code == 2);
  CHECK_THAT(run_program(small_run({"--out=", "--seed", "3"})).err,
             test::Says("KB-U012", "--out", "expected", "nothing", "option"));
}

TEST_CASE("results that would take each other's place are refused at once", "[cli][errors]") {
  const TemporaryFolder folder;
  const std::string file = folder.path("r");
  const ProgramResult same = run_program(small_run({"--json", file, "--csv", file}));
  CHECK(same.exit_code == 2);
  CHECK(same.out.empty());
  CHECK_THAT(same.err, test::Says("KB-U001", "two", "'" + file + "'", "names", "differ"));
  const std::string report = folder.path("out/report.json");
  const ProgramResult in_folder = run_program(small_run(
      {"--out", folder.path("out"), "--csv", folder.path("out/../out/") + "report.json"}));
  CHECK(in_folder.exit_code == 2);
  CHECK(run_program(small_run({"--json", "/dev/null", "--csv", "/dev/null"})).exit_code == 0);
}

TEST_CASE("names of a user's have nothing in them that a terminal obeys", "[cli][errors]") {
  const std::string name = "a\x1b[2J\u202Eb\u200B";
  const std::string shown = "a\\x1b[2J\\u{202e}b\\u{200b}";
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {name},
           {"run", "--" + name},
           {"run", "--bench", name},
           {"run", "--bench", "ccl-allreduce", "--topology", name + ".yaml"},
           small_run({"--ccl", name}),
           small_run({"--set", name}),
           small_run({"--json", name + "/x"}),
           small_run({"--jobs", name}),
           {"bench", "--case", name},
           {"bench", "--case", "rms", "--dtype", name},
           {"probe", "bound", "--bytes", name}}) {
    const ProgramResult result = run_program(arguments);
    CAPTURE(result.err);
    CHECK(result.exit_code >= 2);
    CHECK_THAT(result.err, Contains(shown) && !Contains("\x1b") && !Contains("\u202E"));
  }
}

TEST_CASE("lists with nothing beside a comma, and all beside others, are refused",
          "[cli][errors]") {
  CHECK(run_program(small_run({"--set", "n_elem=,"})).exit_code == 2);
  CHECK_THAT(run_program({"run", "--bench", "ccl-allreduce", "--set", "n_elem=64,"}).err,
             test::Says("KB-U012", "--set", "n_elem", "64"));
  CHECK_THAT(run_program({"bench", "--case", "rms", "--dtype", "all,f16"}).err,
             test::Says("KB-U012", "--dtype", "'all,f16'", "'all'"));
  CHECK_THAT(run_program({"probe", "bound", "--bytes", "-1"}).err,
             test::Says("KB-U012", "--bytes", "'-1'", "0", "1 TiB", "65536", "64KiB"));
}

TEST_CASE("a wrong size is told with what would be right", "[cli][errors]") {
  for (const std::string bytes : {"", "x", "-1", "64 kib", "1.5", "9999999TiB"}) {
    const ProgramResult result = run_program({"probe", "bound", "--bytes", bytes});
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, StartsWith("kernbench: error: [KB-U012] --bytes '"));
  }
}

TEST_CASE("a wrong topology is told with file, line and column", "[cli][errors]") {
  const TemporaryFolder folder;
  const std::string tiny = read_file(KERNBENCH_ROOT "/topologies/tiny.yaml");
  const std::string file = folder.write(
      "t.yaml", replaced(tiny, "noc: {bandwidth: 256 GB/s", "noc: {bandwith: 256 GB/s"));
  const ProgramResult result = run_program({"run", "--bench", "ccl-allreduce", "--topology", file});
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err, StartsWith("kernbench: error: " + file +
                                    ":15:9: [KB-Y010] unknown key "
                                    "'bandwith' in cube.noc; did you mean 'bandwidth'?\n"));
  CHECK(run_program(small_run({"--ccl", "no/such.yaml"})).exit_code == 3);
}

TEST_CASE("what cannot be written is found before anything is simulated", "[cli][errors][output]") {
  const TemporaryFolder folder;
  const std::string file = folder.write("file", "");
  for (const std::string option : {"--json", "--csv", "--trace", "--out"}) {
    const ProgramResult result = run_program(small_run({option, file + "/x"}));
    CHECK(result.exit_code == 4);
    CHECK_THAT(result.err, test::Says("KB-I010", "'" + file + "/x'", "Not a directory"));
    CHECK(result.out.empty());
  }
  CHECK(run_program(small_run({"--json", folder.path("")})).exit_code == 4);
}

TEST_CASE("a full disk is exit code 4, and no file is left behind", "[cli][errors][output]") {
  const TemporaryFolder folder;
  const ProgramResult full = run_program(small_run({"--json", "/dev/full"}));
  CHECK(full.exit_code == 4);
  CHECK_THAT(full.err, Contains("[KB-I011] writing ") && Contains("No space left on device"));

  for (const std::string option : {"--json", "--trace"}) {
    const ProgramResult limited =
        run_program(small_run({option, folder.path("r")}), {.file_size_limit = 1000});
    CHECK(limited.exit_code == 4);
    CHECK_THAT(limited.err, Contains("[KB-I011] writing ") && Contains("File too large"));
    CHECK(folder.names().empty());
  }
  CHECK(run_program({"list"}, {.stdout_file = "/dev/full"}).exit_code == 4);
}

TEST_CASE("a reader who leaves is no error unless it wanted the result", "[cli][errors][output]") {
  const TemporaryFolder folder;
  const ProgramOptions closed{.close_stdout = true};
  const ProgramResult table = run_program(small_run({"--json", folder.path("r.json")}), closed);
  CHECK(table.exit_code == 0);
  CHECK(table.err.empty());
  CHECK(run_program(small_run({"--json", "-"}), closed).exit_code == 4);
  CHECK(run_program({"list"}, closed).exit_code == 0);
}

TEST_CASE("no escape sequences where there is no terminal", "[cli]") {
  const std::string escape = "\x1b";
  CHECK_THAT(run_program({"list"}).out, !Contains(escape));
  CHECK_THAT(run_program({"rum"}).err, !Contains(escape));
}

}  // namespace kernbench::test::cli_exit_code_test
