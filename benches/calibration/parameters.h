// Parameters of a fit: keys with the ranges in which their values are searched.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "benches/calibration/least_squares.h"
#include "benches/calibration/machines.h"
#include "benches/variants/ranges.h"

namespace kernbench::benches::calibration {

// Values of all parameters, as their files write them.
using Texts = std::vector<std::string>;

struct Parameter {
  variants::Range range;
  std::vector<std::string> keys;  // that have the value: the range's, and those joined to it
  double start = 0;  // in the range's unit: the given value, or one inside if that is outside

  // A size or a number that is whole: times jump where it changes, so it has no derivative.
  bool is_switch() const { return range.is_whole; }
  std::string name() const;  // "protocols.LL.start", "protocols.LL.start+protocols.Simple.start"

  // The coordinate of a fit is the value's logarithm, as times and rates vary by factors; of a
  // range that begins at 0 it is the value's share of the range.
  double to_coordinate(double value) const;
  double to_value(double coordinate) const;
  // Values have five digits: more would say nothing.
  std::string text_at(double value) const;
  double value_of(const std::string& text) const;
  // "412.3 ns": for people, with four digits.
  std::string show(double value) const;
};

// Ranges of keys, or of several that have one value: "KEY+KEY=LOW..HIGH".  Throws what
// parse_ranges() does, UsageError KB-U011 for a key that a machine does not have, and
// KB-U012 for an end that cannot be simulated, and for joined keys of two kinds.
std::vector<Parameter> read_parameters(const Calibration& calibration,
                                       const std::vector<std::string>& texts);

// The machine with these values.  Throws what VariantMaker::first() does, and UsageError KB-U012 if
// it has other ranks than the published rows.
variants::Variant make_variant(const Machine& machine, const std::vector<Parameter>& parameters,
                               const Texts& texts);

}  // namespace kernbench::benches::calibration
