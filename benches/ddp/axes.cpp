#include "benches/ddp/axes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <string>
#include <string_view>

#include "benches/train/model_settings.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::ddp {

namespace {

constexpr std::array kSchemes = {Scheme::ddp, Scheme::zero1, Scheme::fsdp2};

double parse_cap(std::string_view text) {
  std::size_t end = 0;
  double cap = -1;
  try {
    cap = std::stod(std::string(text), &end);
  } catch (const std::exception&) {
    end = 0;
  }
  if (end == text.size() && cap >= 0 && cap <= static_cast<double>(train::kMost)) return cap;
  throw UsageError(
      "KB-U012", "--set bucket_cap_mb={}: a size in MiB is wanted, or several separated by commas",
      text);
}

}  // namespace

std::vector<Scheme> read_schemes(const Settings& settings) {
  return settings.choices("scheme", kSchemes);
}

std::vector<double> read_caps(const Settings& settings) {
  std::vector<double> caps;
  for (const std::string_view text : settings.list("bucket_cap_mb")) {
    const double cap = parse_cap(text);
    if (std::ranges::find(caps, cap) != caps.end()) {
      throw UsageError("KB-U012", "--set bucket_cap_mb={}: '{}' is given twice",
                       settings.text("bucket_cap_mb"), text);
    }
    caps.push_back(cap);
  }
  return caps;
}

}  // namespace kernbench::benches::ddp
