#include "benches/operators/case_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "benches/operators/correctness.h"
#include "benches/operators/operator_case.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::operators {

namespace {

[[noreturn]] void refuse(const OperatorCase& operator_case, std::string_view why) {
  throw Error("KB-O003", ExitCode::collective_misuse, "operator case {}: {}",
              in_quotes(operator_case.name()), why);
}

// True if `text` may name a case or a provider, which also name files and folders.
bool is_name(std::string_view text) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !text.empty() && std::ranges::all_of(text, is_part);
}

std::string to_text(const ProblemSize& size) {
  return fmt::format("({}, {}, {})", size.batch, size.seq, size.dim);
}

// True if the size is valid.  Token numbers must be exact in f32, in which kernels compare them
// with experts' offsets.
bool is_size(const ProblemSize& size) {
  constexpr std::int64_t kMost = 1 << 24;
  const auto is_in_range = [](std::int64_t number) { return number >= 1 && number <= kMost; };
  return is_in_range(size.batch) && is_in_range(size.seq) && is_in_range(size.dim) &&
         is_in_range(size.tokens());
}

void check_sizes(const OperatorCase& operator_case, std::span<const ProblemSize> sizes,
                 std::string_view what) {
  if (sizes.empty() || !std::ranges::all_of(sizes, is_size)) {
    refuse(operator_case, fmt::format("{}() returns sizes, at least one: batch, seq, dim and the "
                                      "number of tokens from 1 to 2^24",
                                      what));
  }
  for (const ProblemSize& size : sizes) {
    if (std::ranges::count(sizes, size) == 1) continue;
    refuse(operator_case, fmt::format("{}() returns {} twice", what, to_text(size)));
  }
}

void check_provider(const OperatorCase& operator_case, std::span<const ProviderInfo> all,
                    const ProviderInfo& info) {
  const std::string name = in_quotes(info.name);
  if (!is_name(info.name)) {
    refuse(operator_case, fmt::format("a provider's name is {}; it names files: letters, digits, "
                                      "'_' and '-'",
                                      name));
  }
  if (std::ranges::count(all, info.name, &ProviderInfo::name) > 1 ||
      std::ranges::count(all, info.title, &ProviderInfo::title) > 1) {
    refuse(operator_case, fmt::format("two providers have the name {} or the title {}", name,
                                      in_quotes(info.title)));
  }
  if (info.title.empty()) refuse(operator_case, fmt::format("provider {} has no title", name));
  if (!info.make) refuse(operator_case, fmt::format("provider {} has no make()", name));
}

void check_memory(const OperatorCase& operator_case, const Definition& definition) {
  const Bytes bytes = checked_bytes(definition, operator_case.providers().size());
  if (bytes <= kMostCheckedBytes) return;
  constexpr double kGib = 1 << 30;
  refuse(operator_case,
         fmt::format("the check of {} takes {:.1f} GiB: inputs, and the results of each provider; "
                     "{} GiB at most",
                     describe(definition.problem), static_cast<double>(bytes) / kGib,
                     kMostCheckedBytes >> 30));
}

void check_providers(const OperatorCase& operator_case) {
  const std::vector<ProviderInfo> providers = operator_case.providers();
  if (providers.empty() || providers.front().name != naive().name) {
    refuse(operator_case, "providers() returns at least one, naive() first");
  }
  for (const ProviderInfo& info : providers) check_provider(operator_case, providers, info);
}

}  // namespace

void check_case(const OperatorCase& operator_case, std::span<const DType> dtypes,
                std::uint64_t seed, bool plot) {
  if (!is_name(operator_case.name())) {
    refuse(operator_case, "its name names files: letters, digits, '_' and '-'");
  }
  check_sizes(operator_case, operator_case.checked_sizes(), "checked_sizes");
  check_sizes(operator_case, operator_case.sizes(), "sizes");
  const std::vector<ProblemSize> timed = timed_sizes(operator_case, plot);
  if (timed.empty()) refuse(operator_case, "none of its sizes() to plot has batch 1");
  check_providers(operator_case);
  for (const DType dtype : dtypes) {
    for (const ProblemSize& size : operator_case.checked_sizes()) {
      check_memory(operator_case, define(operator_case, {size, dtype, seed}));
    }
    for (const ProblemSize& size : timed) define(operator_case, {size, dtype, seed});
  }
}

std::vector<ProblemSize> timed_sizes(const OperatorCase& operator_case, bool plot) {
  std::vector<ProblemSize> sizes = operator_case.sizes();
  if (plot) std::erase_if(sizes, [](const ProblemSize& size) { return size.batch != 1; });
  return sizes;
}

}  // namespace kernbench::benches::operators
