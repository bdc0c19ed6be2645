// Numbers and quantities as they are written in a configuration file.  Exact: no floating point.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sim_engine/base/units.h"

namespace kernbench {

struct ParsedScalar {
  std::int64_t value = 0;
  std::string_view code = {};  // KB-Y...; empty if `value` is right
  std::string fault = {};      // what is wrong, and what would be right
};

// "0", "128", "-1": decimal digits alone, at most 18.
ParsedScalar parse_integer(std::string_view text, std::int64_t min, std::int64_t max);

struct QuantityUnit {
  std::string_view name;
  std::int64_t scale;  // in base units: ps, B, B/s, Hz, fJ
};

// A kind of quantity: "<decimal> <unit>", e.g. "51.2 GB/s".
struct Quantity {
  std::string_view name;     // "a bandwidth"
  std::string_view example;  // "64 GB/s"
  std::span<const QuantityUnit> units;
  std::string_view finest;  // "1 B/s"
  std::int64_t min;
  std::int64_t max;
  bool may_be_unlimited = false;  // written `unlimited`; its value is Rate<>::kUnlimited

  std::string_view kind() const { return name.substr(name.find(' ') + 1); }  // "bandwidth"
};

Quantity time_quantity();  // 0 ps to 1 s
Quantity bytes_quantity(Bytes min, Bytes max);
// 1 MB/s to 1000 TB/s.  The minimum is chosen so that the time to transfer 1 TiB fits a Time.
Quantity bandwidth_quantity();
Quantity frequency_quantity();  // 1 MHz to 1000 GHz

Quantity share_quantity();  // 0.1 % to 100 %, in millionths

Quantity operation_energy_quantity();  // 0 to 1000 pJ/FLOP, in fJ
Quantity byte_energy_quantity();       // 0 to 1000 pJ/bit, in fJ for a byte

// The value in base units.
ParsedScalar parse_quantity(std::string_view text, const Quantity& quantity);

// "102.4 GB/s": a value in that unit, or in the least one where it has more decimals than are
// parsed.  parse_quantity() returns the same value.  REQUIRES: the quantity has the unit
std::string format_quantity(std::int64_t value, std::string_view unit, const Quantity& quantity);

}  // namespace kernbench
