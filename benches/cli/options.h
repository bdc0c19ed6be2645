// The commands with their options, examples and helps, for CLI11.

#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "benches/cli/cli.h"

namespace kernbench::benches::cli {

// The values that the command line's options set, by command.
struct Commands {
  ListArguments list = {};
  KeysArguments keys = {};
  DrawArguments draw = {};
  ErrorsArguments errors = {};
  RunArguments run = {};
  WhatIfArguments whatif = {};
  PlanArguments plan = {};
  CalibrateArguments calibrate = {};
  CompareArguments compare = {};
  OperatorArguments bench = {};
  ProbePathArguments path = {};
  ProbeBoundArguments bound = {};
  ProbeChooseArguments choose = {};
  ProbeOrderArguments order = {};
  ProbeGemmArguments gemm = {};
  std::string shell = {};
};

// REQUIRES: `commands` outlives `app`
void add_commands(CLI::App& app, Commands& commands);

// The script that makes a shell complete command lines.  Throws UsageError KB-U001 for another
// shell than bash.
std::string completion_script(const std::string& shell);

// Returns what the last word may be completed to, one in a line.
std::string candidates(const std::vector<std::string>& words, const CLI::App& app);

}  // namespace kernbench::benches::cli
