#include "runtime/expert_parallel/routing_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>
#include <utility>

#include "runtime/random/generator.h"
#include "sim_engine/base/error.h"

namespace kernbench::moe {

namespace {

using Experts = std::vector<std::int64_t>;

constexpr std::string_view kNames =
    "W0 (balanced), W1 (hot experts), W2 (hot rank), W3 (its heat spread), W4 (ragged sources), "
    "W5 (idle ranks), W6 (rotating), W7 (burst), lognormal:SIGMA, trace:FILE";

[[noreturn]] void refuse_load(const std::string& text) {
  throw CollectiveError("KB-C029", text);
}

// The number of ranks that have experts, where there are more ranks than experts.
std::int64_t ranks_with_experts(const LoadShape& shape) {
  return std::min<std::int64_t>(shape.ranks, shape.num_experts);
}

// The experts in an order that depends on the seed and the step.
Experts shuffled(const LoadShape& shape, Experts experts, std::uint64_t purpose) {
  const random::Draw draw(shape.seed, static_cast<std::uint64_t>(shape.step) * 4 + purpose);
  for (std::size_t i = experts.size(); i-- > 1;) {
    const auto other = static_cast<std::size_t>(draw.bits(static_cast<std::int64_t>(i)) % (i + 1));
    std::swap(experts[i], experts[other]);
  }
  return experts;
}

// Deals the experts of a list out in turn, so many at a time: all get as many, but for one.
class Dealer {
 public:
  explicit Dealer(Experts experts) : experts_(std::move(experts)) {}

  // The experts of a token, which is the `turn`-th that is dealt some.
  void deal(std::int64_t turn, std::int64_t count, Experts& into) const {
    const auto size = std::ssize(experts_);
    for (std::int64_t i = 0; i < count; ++i) {
      into.push_back(experts_[static_cast<std::size_t>((turn * count + i) % size)]);
    }
  }

 private:
  Experts experts_;
};

}  // namespace

// The experts that are hot, and which of the tokens go there.
struct RoutingLoad::Heat {
  Experts hot;
  std::int64_t period = 2;  // each so many-th token is hot
};

RoutingLoad RoutingLoad::parse(std::string_view text) {
  RoutingLoad load;
  load.name_ = text;
  constexpr std::string_view lognormal = "lognormal:";
  constexpr std::string_view trace = "trace:";
  if (text.size() == 2 && text[0] == 'W' && text[1] >= '0' && text[1] <= '7') {
    load.kind_ = static_cast<Kind>(text[1] - '0');
  } else if (text.starts_with(lognormal)) {
    load.kind_ = Kind::lognormal;
    const std::string_view number = text.substr(lognormal.size());
    const char* const end = number.data() + number.size();
    const auto [at, error] = std::from_chars(number.data(), end, load.sigma_);
    if (error != std::errc() || at != end || !(load.sigma_ >= 0) || std::isinf(load.sigma_)) {
      refuse_load(fmt::format("routing '{}': SIGMA is a number from 0 on", text));
    }
  } else if (text.starts_with(trace) && text.size() > trace.size()) {
    load.kind_ = Kind::trace;
    load.read_trace(std::string(text.substr(trace.size())));
  } else {
    refuse_load(fmt::format("there is no routing '{}'; there are: {}", text, kNames));
  }
  return load;
}

void RoutingLoad::read_trace(const std::string& path) {
  path_ = path;
  std::ifstream file(path);
  if (!file) refuse_load(fmt::format("routing trace '{}' cannot be read", path));
  std::vector<Line> lines;
  std::string text;
  for (std::int64_t number = 1; std::getline(file, text); ++number) {
    text.resize(std::min(text.find('#'), text.size()));
    Line line{number, {}};
    for (const char *at = text.data(), *end = at + text.size(); at < end;) {
      if (*at == ' ' || *at == '\t' || *at == ',' || *at == '\r') {
        ++at;
        continue;
      }
      std::int64_t expert = 0;
      const auto [rest, error] = std::from_chars(at, end, expert);
      const bool is_apart =
          rest == end || *rest == ' ' || *rest == '\t' || *rest == ',' || *rest == '\r';
      if (error != std::errc() || !is_apart) {
        refuse_load(
            fmt::format("{}:{}: '{}' is no list of experts: whole numbers, apart by blanks "
                        "or commas, are wanted",
                        path, number, text));
      }
      line.experts.push_back(expert);
      at = rest;
    }
    if (!line.experts.empty()) lines.push_back(std::move(line));
  }
  if (lines.empty()) refuse_load(fmt::format("routing trace '{}' has no token", path));
  trace_ = std::make_shared<const std::vector<Line>>(std::move(lines));
}

std::int64_t RoutingLoad::tokens(const LoadShape& shape, int rank) const {
  if (kind_ == Kind::ragged) return 2 * (rank + 1) * shape.tokens / (shape.ranks + 1);
  const bool is_idle = kind_ == Kind::idle && shape.ranks > 1 && rank >= (shape.ranks + 1) / 2;
  return is_idle ? 0 : shape.tokens;
}

RoutingLoad::Heat RoutingLoad::heat_of(const LoadShape& shape) const {
  const std::int64_t ranks = ranks_with_experts(shape);
  const std::int64_t on_rank = shape.num_experts / ranks;
  const auto of_rank = [&](std::int64_t rank) {
    Experts experts(static_cast<std::size_t>(on_rank));
    std::iota(experts.begin(), experts.end(), rank * on_rank);
    return experts;
  };
  // Expert i of them lies on rank i mod ranks.
  const auto spread = [&](std::int64_t count) {
    Experts experts;
    for (std::int64_t i = 0; i < count; ++i) {
      experts.push_back(i % ranks * on_rank + i / ranks);
    }
    return experts;
  };
  switch (kind_) {
    case Kind::hot_experts:
      return {spread(std::max<std::int64_t>(shape.num_experts / 32, 1))};
    case Kind::hot_rank:
      return {of_rank(0)};
    case Kind::spread_heat:
      return {spread(on_rank)};
    case Kind::rotating:
      return {of_rank(shape.step % ranks)};
    case Kind::burst:
      return shape.step % 4 == 0 ? Heat{of_rank(0), 1} : Heat{};
    default:
      return {};
  }
}

std::vector<std::int64_t> RoutingLoad::by_heat(const LoadShape& shape, int rank) const {
  const Heat heat = heat_of(shape);
  Experts all(static_cast<std::size_t>(shape.num_experts));
  std::iota(all.begin(), all.end(), 0);
  Experts others;
  std::ranges::set_difference(
      all,
      [&] {
        Experts sorted = heat.hot;
        std::ranges::sort(sorted);
        return sorted;
      }(),
      std::back_inserter(others));
  const Dealer of_all(shuffled(shape, all, 0));
  const Dealer of_hot(shuffled(shape, heat.hot, 1));
  const Dealer of_others(shuffled(shape, others, 2));
  const std::int64_t hot_count = std::min(shape.top_k, std::ssize(heat.hot));
  std::int64_t first = 0;  // tokens of the ranks before
  for (int before = 0; before < rank; ++before) first += tokens(shape, before);
  Experts experts;
  for (std::int64_t token = first; token < first + tokens(shape, rank); ++token) {
    const std::int64_t turn = token / heat.period;
    if (!heat.hot.empty() && token % heat.period == 0) {
      of_hot.deal(turn, hot_count, experts);
      of_others.deal(turn, shape.top_k - hot_count, experts);
    } else {
      of_all.deal(heat.hot.empty() ? token : turn, shape.top_k, experts);
    }
  }
  return experts;
}

std::vector<std::int64_t> RoutingLoad::drawn(const LoadShape& shape, int rank) const {
  const random::Draw of_weights(shape.seed, 3);
  std::vector<double> logarithms;
  for (std::int64_t e = 0; e < shape.num_experts; ++e) {
    logarithms.push_back(sigma_ * static_cast<double>(of_weights.normal(e)));
  }
  // The streams of a rank and a step have numbers that no other has.
  const random::Draw draw(shape.seed, 4 + static_cast<std::uint64_t>(shape.step) * 65536 +
                                          static_cast<std::uint64_t>(rank));
  Experts experts;
  std::vector<std::pair<double, std::int64_t>> keys(static_cast<std::size_t>(shape.num_experts));
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    for (std::int64_t e = 0; e < shape.num_experts; ++e) {
      const std::int64_t i = token * shape.num_experts + e;
      const double uniform = (static_cast<double>(draw.bits(i)) + 0.5) / 4294967296.0;
      keys[static_cast<std::size_t>(e)] = {
          std::log(-std::log(uniform)) - logarithms[static_cast<std::size_t>(e)], e};
    }
    std::ranges::partial_sort(keys, keys.begin() + shape.top_k);
    for (std::int64_t i = 0; i < shape.top_k; ++i) {
      experts.push_back(keys[static_cast<std::size_t>(i)].second);
    }
  }
  return experts;
}

std::vector<std::int64_t> RoutingLoad::traced(const LoadShape& shape, int rank) const {
  const std::int64_t first = (shape.step * shape.ranks + rank) * shape.tokens;
  Experts experts;
  for (std::int64_t token = first; token < first + shape.tokens; ++token) {
    const Line& line = (*trace_)[static_cast<std::size_t>(token % std::ssize(*trace_))];
    const auto refuse = [&](const std::string& what) {
      refuse_load(fmt::format("{}:{}: {}", path_, line.number, what));
    };
    if (std::ssize(line.experts) != shape.top_k) {
      refuse(fmt::format("{} experts; each token has {}", line.experts.size(), shape.top_k));
    }
    Experts sorted = line.experts;
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) != sorted.end()) {
      refuse(fmt::format("expert {} is there twice", *std::ranges::adjacent_find(sorted)));
    }
    if (sorted.front() < 0 || sorted.back() >= shape.num_experts) {
      refuse(fmt::format("expert {}; there are 0 to {}",
                         sorted.front() < 0 ? sorted.front() : sorted.back(),
                         shape.num_experts - 1));
    }
    experts.insert(experts.end(), line.experts.begin(), line.experts.end());
  }
  return experts;
}

std::vector<std::int64_t> RoutingLoad::experts(const LoadShape& shape, int rank) const {
  if (shape.top_k < 1 || shape.top_k > shape.num_experts) {
    refuse_load(
        fmt::format("top_k {} of {} experts: each token goes to one at least, and to each "
                    "once at most",
                    shape.top_k, shape.num_experts));
  }
  if (shape.step < 0) {
    refuse_load(
        fmt::format("routing '{}': steps are numbers from 0 on, and not {}", name_, shape.step));
  }
  if (kind_ == Kind::trace) return traced(shape, rank);
  return kind_ == Kind::lognormal ? drawn(shape, rank) : by_heat(shape, rank);
}

std::vector<std::int64_t> expert_loads(const RoutingLoad& load, const LoadShape& shape) {
  Experts loads(static_cast<std::size_t>(shape.num_experts));
  for (int rank = 0; rank < shape.ranks; ++rank) {
    for (const std::int64_t expert : load.experts(shape, rank)) {
      ++loads[static_cast<std::size_t>(expert)];
    }
  }
  return loads;
}

double overload_factor(const std::vector<std::int64_t>& loads) {
  const std::int64_t sum = std::accumulate(loads.begin(), loads.end(), std::int64_t{0});
  if (sum == 0) return 1;
  return static_cast<double>(std::ranges::max(loads) * std::ssize(loads)) /
         static_cast<double>(sum);
}

}  // namespace kernbench::moe
