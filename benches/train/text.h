#pragma once

#include <span>

#include "sim_engine/base/embedded_file.h"

namespace kernbench::benches::train {

// The text that models learn, text.txt: ASCII, whose bytes are the tokens.
std::span<const EmbeddedFile> training_texts();

}  // namespace kernbench::benches::train
