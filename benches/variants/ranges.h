// Ranges of keys: where a value is not known, the least and the largest one that it may have.
//
//   sip_link.latency=250..900ns,sip_link.bandwidth=40 GB/s..64 GB/s

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "benches/variants/keys.h"
#include "benches/variants/variants.h"

namespace kernbench::benches::variants {

struct Range {
  const Key* key = nullptr;
  double low = 0;  // in `unit`, as `high` is
  double high = 0;
  std::string unit = {};  // one of the key's, the finest that an end has; empty of a plain number
  bool is_whole = false;  // of integers and sizes: values are whole numbers of the unit

  // The nearest value that is in the range and that the key can have, as its file writes it.
  Choice at(double value) const;
  // The number in `unit` of a text that the key's file may have; nullopt if it is no number, as
  // "unlimited".
  std::optional<double> find_value(std::string_view text) const;
  // "412.5 ns": a value with the digits that people want to see.
  std::string show(double value) const;
};

// Texts such as "sip_link.latency=250..900ns", also several between commas.  A unit that one end
// has stands for both, and the key may be named by its ending (Keys::find_ending()).  Throws
// UsageError, whose text begins with `option`:
//   KB-U011 for a name that is no key's, or several keys' ending
//   KB-U021 for another form, a key that is no quantity, integer or number, or one given twice
//   KB-U012 for an end that the key cannot have, and ends that do not ascend
// REQUIRES: `keys` outlives the ranges
std::vector<Range> parse_ranges(std::string_view option, const std::vector<std::string>& texts,
                                const Keys& keys);

}  // namespace kernbench::benches::variants
