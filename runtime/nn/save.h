// Files of states: torch.save and torch.load, in numpy's format .npz (ADR-0220).

#pragma once

#include <string>

#include "runtime/nn/state.h"

namespace kernbench::nn {

// Writes tensors and numbers by their names: numpy.load(path)["fc.weight"] reads one.  f16, f32,
// integers and bool keep their type; bf16 and the 8-bit types, which numpy has not, are written as
// f32, and numbers as f64 without dimensions.  The file appears complete or not at all.  This is a
// host read.  Throws IoError KB-I010 if it cannot be written.
//   kb::nn::save(model->state_dict(), "model.npz");
//   kb::nn::save(optimizer.state_dict(), "optimizer.npz");
void save(const State& state, const std::string& path);
void save(const StateDict& tensors, const std::string& path);

// Reads what save() or numpy.savez() wrote: host tensors, for load_state_dict(), which rounds them
// to its parameters' types; f64 without dimensions are numbers.  Throws IoError KB-I013 for another
// file, naming the entry and what would be right.
State load(const std::string& path);

}  // namespace kernbench::nn
