// Commands run a bench once, or many variants of it.

#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/bench/process_team.h"
#include "benches/cli/cli.h"
#include "benches/page/what_if.h"
#include "benches/variants/variants.h"
#include "benches/variants/what_helps.h"

namespace kernbench::benches::cli {

using Gains = std::vector<page::ResourceGain>;

struct Work {
  variants::Variant first;  // the run's topology, ccl.yaml and settings
  std::string inputs;
  std::vector<std::string> axes = {};  // what varies, for the head
  std::function<void(Bench&)> run;
  variants::RunVariants ran = {};  // what --explain may repeat
  std::string_view command = "run";
  bool records_first = false;    // of several runs the first one alone
  const Gains* gains = nullptr;  // of whatif, once the work is done; nullptr: none
};

variants::VariantRequest variant_request(const BenchInfo& info, const RunArguments& arguments);

// Does the work with the head, the results, the statistics and the exit code of a run.
int perform(const BenchInfo& info, const RunArguments& arguments, ProcessTeam* team,
            const Work& work);

}  // namespace kernbench::benches::cli
