#include "runtime/guards/log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "sim_engine/base/error.h"
#include "sim_engine/base/visible_text.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::runtime {

namespace {

constexpr std::array<std::string_view, 5> kTopics = {"distributed", "ccl", "fiber", "launch",
                                                     "all"};

}  // namespace

Log::Log(const char* wanted) {
  std::string_view rest = wanted == nullptr ? "" : wanted;
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    const auto found = std::ranges::find(kTopics, name);
    if (found == kTopics.end()) {
      throw UsageError("KB-U013", "KERNBENCH_LOG: there is no topic {}; there are: {}",
                       in_quotes(name), fmt::join(kTopics, ", "));
    }
    topics_ |= name == "all" ? ~0U : 1U << (found - kTopics.begin());
  }
}

void Log::print(LogTopic topic, Time now, std::string_view who, std::string_view what) {
  fmt::print(stderr, "kernbench: {}: {}: {}: {}\n", to_string(now),
             kTopics[static_cast<std::size_t>(topic)], who, visible(what));
}

}  // namespace kernbench::runtime
