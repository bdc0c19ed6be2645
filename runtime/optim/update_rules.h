// What tells optimizers apart: their options, their state and the update of an element.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "runtime/optim/fused_update.h"
#include "runtime/optim/optimizer.h"

namespace kernbench::optim {

[[noreturn]] void refuse(const std::string& text);       // CollectiveError KB-A012
void check_number(std::string_view name, double value);  // finite and at least 0

// An option, which visit_options() gives a new value; `has_default` as in torch's states, which may
// lack it.
using OptionVisit = std::function<double(std::string_view name, double value, bool has_default)>;

template <class Options>
struct UpdateRule {
  std::string_view kernel;
  std::array<std::string_view, 3> state;  // torch's names of the tensors in a ParameterState
  void (*check)(const Options& options);
  void (*visit_options)(Options& options, const OptionVisit& visit);
  // Returns, for each tensor of the state, if these options need it.
  std::array<bool, 3> (*needs)(const Options& options);
  UpdateNumbers (*numbers)(const Options& options, std::int64_t step, bool is_first);
  UpdateFunction update;
};

const UpdateRule<SGDOptions>& rule_for(const SGDOptions&);
const UpdateRule<AdamOptions>& rule_for(const AdamOptions&);
const UpdateRule<AdamWOptions>& rule_for(const AdamWOptions&);
const UpdateRule<RMSpropOptions>& rule_for(const RMSpropOptions&);
const UpdateRule<AdagradOptions>& rule_for(const AdagradOptions&);

}  // namespace kernbench::optim
