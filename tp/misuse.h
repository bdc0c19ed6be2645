// Errors for misuse of tensor parallelism, with Megatron-LM's texts where it has them.

#pragma once

#include <string_view>

#include "sim_engine/base/error.h"

namespace kernbench::tp {

// A size that is not divisible.
[[noreturn]] inline void not_divisible(std::string_view text) {
  throw CollectiveError("KB-T001", text);
}

// Something is used before it is initialized, or initialized twice.  Megatron's AssertionError.
[[noreturn]] inline void wrong_order(std::string_view text) {
  throw CollectiveError("KB-T002", text);
}

// Sizes, or an order of dimensions, that do not fit.  Megatron's RuntimeError.
[[noreturn]] inline void wrong_sizes(std::string_view text) {
  throw CollectiveError("KB-T003", text);
}

// A named state of the random numbers that exists already, or does not exist.
[[noreturn]] inline void wrong_rng_state(std::string_view text) {
  throw CollectiveError("KB-T004", text);
}

// Data that are missing or of another type.
[[noreturn]] inline void wrong_data(std::string_view text) {
  throw CollectiveError("KB-T005", text);
}

// Options, parameters or arguments of a layer that do not go together.
[[noreturn]] inline void wrong_layer(std::string_view text) {
  throw CollectiveError("KB-T006", text);
}

}  // namespace kernbench::tp
