// Another simulator's figure, shown beside the model's figures: a versioned data file.

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sim_engine/base/embedded_file.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches::evaluation {

struct FsimReference {
  Time latency{0};
  int devices = 1;
};

// Throws ConfigError (KB-Y...) that lists what is wrong with the text.
FsimReference parse_fsim_reference(std::string_view text, const std::string& name);

// "fsim_reference" is benches/evaluation/fsim_reference.yaml as it was when the program was built.
std::span<const EmbeddedFile> fsim_references();

// benches/evaluation/fsim_reference.yaml as it was when the program was built.
FsimReference shipped_fsim_reference();

}  // namespace kernbench::benches::evaluation
