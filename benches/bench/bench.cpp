#include "benches/bench/bench.h"

#include <fmt/format.h>

#include "benches/bench/bench_run.h"
#include "benches/bench/energy_cells.h"
#include "runtime/tensor/host_copy.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace {

Registry<BenchInfo>& registry() {
  static Registry<BenchInfo> benches("a", "bench", "KB-U002");
  return benches;
}

}  // namespace

bool register_bench(BenchInfo info) {
  const std::string name = info.name;
  return registry().add(name, std::move(info));
}

const Registry<BenchInfo>& registered_benches() {
  return registry();
}

const Topology& Bench::topology() const {
  return run_.request.topology;
}

const ccl::Config& Bench::ccl() const {
  return run_.request.ccl;
}

int Bench::world_size() const {
  return ccl().world_size().value_or(topology().system.sip_count);
}

std::uint64_t Bench::seed() const {
  return run_.request.seed;
}

const Settings& Bench::settings() const {
  return run_.settings;
}

Bench::Context Bench::make_context() {
  return make_context(topology(), {.ccl = ccl()});
}

Bench::Context Bench::make_context(const Topology& topology, RuntimeOptions options) {
  run_.throw_if_interrupted();
  run_.console.open();
  if (run_.is_point() && options.evaluation_threads == 0) options.evaluation_threads = 1;
  return run_.contexts.make(topology, std::move(options));
}

void Bench::submit_sentinel() {
  const Context torch = make_context();
  const Tensor x = torch->zeros({1, 4});
  runtime::copy_elements(x, RuntimeContext::tensor({1, 2, 3, 4}, {1, 4}));  // without autograd
  KB_CHECK(x.at({0, 3}) == 4, "the sentinel reads {}", x.at({0, 3}));
}

void Bench::add_row(Row row, bool ok, std::string_view why) {
  add_energy(row, run_.contexts);
  if (run_.rows().empty() && run_.request.check_first) run_.request.check_first({&row, 1});
  const std::string what =
      ok ? ""
         : fmt::format("row {}: {}", run_.rows().size(), why.empty() ? "its check failed" : why);
  run_.add_rows({&row, 1}, ok, what);
  run_.contexts.mark(fmt::format("row {}", run_.rows().size()));
  run_.throw_if_interrupted();
}

const std::filesystem::path& Bench::output_folder(std::string_view otherwise) {
  if (run_.output_folder.empty() && !run_.is_point()) run_.output_folder = otherwise;
  return run_.output_folder;
}

void Bench::add_artifact(std::string_view file_name, std::string content) {
  run_.add_artifact(file_name, std::move(content));
  run_.throw_if_interrupted();
}

void Bench::print(std::string_view text) {
  run_.has_printed = true;
  run_.console.print_behind_opening(text);
}

void Bench::note(std::string_view what, std::string_view text) {
  run_.console.print_behind_opening(note_line(what, text));
}

SettingInfo algorithm_setting() {
  return {"algorithm", "",
          "of all_reduce, or several with '+': all_gather:ring, GROUP:tree_allreduce, "
          "all_gather@GROUP:ring; else ccl.yaml's",
          SettingType::name};
}

ccl::Config choose_algorithm(const Bench& bench) {
  const Settings& settings = bench.settings();
  if (!settings.is_set("algorithm")) return bench.ccl();
  return bench.ccl().with_algorithm(settings.text("algorithm"));
}

void check_rank_is_sip(const Bench& bench) {
  if (!bench.ccl().world_size()) return;
  throw ConfigError("KB-Y043",
                    "world_size in ccl.yaml (or the file of --ccl): the bench is of collectives "
                    "of SIPs; take it out");
}

void check_ranks_begin_together(const Bench& bench) {
  for (const Fault& fault : bench.topology().faults) {
    if (fault.kind != Fault::Kind::start) continue;
    throw UsageError("KB-U012",
                     "fault '{}': the bench times what ranks begin together, so it would not show; "
                     "give clock= or compute= to make the rank slower",
                     fault.text);
  }
}

}  // namespace kernbench::benches
