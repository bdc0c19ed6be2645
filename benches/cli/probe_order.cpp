// `probe order` prints the order in which a collective adds up an element: the tree of its sum.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "benches/bench/inputs.h"
#include "benches/cli/commands.h"
#include "benches/cli/probe_output.h"
#include "ccl/backend/order_of_sums.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/line_width.h"
#include "sim_engine/base/roundoff.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::cli {

namespace {

using ccl::OrderOfSums;
using ccl::SumTrees;
using distributed::CollectiveKind;

constexpr std::array kSums = {CollectiveKind::all_reduce, CollectiveKind::reduce,
                              CollectiveKind::reduce_scatter};
constexpr std::array kHolders = {Shard::replicate, Shard::row_wise, Shard::column_wise,
                                 Shard::partial};
constexpr int kMostRanks = 64;          // whose trees are printed in seconds
constexpr std::size_t kMostTrees = 16;  // that the text lists; JSON has all
constexpr std::size_t kMostRanges = 4;  // of each
constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;

// Finds the one that is called so.
template <class Choices>
auto parse_choice(std::string_view option, const std::string& text, const Choices& choices,
                  std::string_view why, const auto& name) {
  std::vector<std::string_view> names;
  for (const auto& choice : choices) {
    if (name(choice) == text) return choice;
    names.push_back(name(choice));
  }
  throw UsageError("KB-U012", "{} {}: {}{}", option, in_quotes(text), why, suggestion(text, names));
}

const ccl::Algorithm& parse_algorithm(const ProbeOrderArguments& arguments, CollectiveKind kind) {
  std::vector<std::string_view> names;
  for (const ccl::Algorithm* const algorithm : ccl::algorithms()) {
    if (algorithm->plan == nullptr || !serves(*algorithm, kind)) continue;
    if (algorithm->name == arguments.algorithm) return *algorithm;
    names.push_back(algorithm->name);
  }
  const ccl::Algorithm* const other = ccl::find_algorithm(arguments.algorithm);
  std::string why = "not known";
  if (other != nullptr && other->plan == nullptr) why = "a kernel, whose sums no plan tells";
  if (other != nullptr && other->plan != nullptr) why = fmt::format("for {}", other->collective);
  throw UsageError("KB-U012", "--algorithm {}: {}{}", in_quotes(arguments.algorithm), why,
                   suggestion(arguments.algorithm, names));
}

std::vector<int> parse_ranks(const std::string& text, const Topology& topology) {
  const int most = std::min(topology.system.sip_count, kMostRanks);
  if (text.empty() && topology.system.sip_count > most) {
    throw UsageError("KB-U012", "topology '{}' has {} ranks: give --ranks, at most {}",
                     topology.name, topology.system.sip_count, most);
  }
  const auto count = text.empty() ? most : static_cast<int>(parse_number("--ranks", text, 1, most));
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

void check_fits(const ccl::Algorithm& algorithm, const ccl::ReductionCase& reduction) {
  std::string_view why =
      describe_misfit(algorithm, ccl::shape_of_sips(reduction.topology, reduction.sips));
  const bool adds_up = algorithm.network == ccl::Network::adds_up && reduction.sips.size() > 1;
  if (adds_up && !provides(reduction.topology, algorithm.network)) why = algorithm.shapes;
  if (why.empty()) return;
  throw UsageError("KB-U012", "--algorithm {}: it cannot serve {} ranks of topology '{}': {}",
                   in_quotes(algorithm.name), reduction.sips.size(), reduction.topology.name, why);
}

std::int64_t parse_count(const ProbeOrderArguments& arguments, DType dtype, CollectiveKind kind,
                         std::size_t ranks) {
  const Bytes bytes = parse_bytes("--bytes", arguments.bytes);
  const std::int64_t multiple =
      size_of(dtype) * (kind == CollectiveKind::reduce_scatter ? static_cast<Bytes>(ranks) : 1);
  if (bytes >= multiple && bytes <= kMostBytes && bytes % multiple == 0) {
    return bytes / size_of(dtype);
  }
  throw UsageError("KB-U012", "--bytes {}: expected a multiple of {} B{}, at most {}",
                   in_quotes(arguments.bytes), multiple,
                   multiple > size_of(dtype) ? ", an element of each rank's block" : "",
                   kMostBytes);
}

// "0..24, 50..74, ... (8 ranges)"
std::string text_of(const std::vector<OrderOfSums::Range>& ranges) {
  std::string text;
  for (std::size_t i = 0; i < std::min(ranges.size(), kMostRanges); ++i) {
    text += fmt::format("{}{}..{}", i > 0 ? ", " : "", ranges[i].begin, ranges[i].end - 1);
  }
  if (ranges.size() > kMostRanges) text += fmt::format(", ... ({} ranges)", ranges.size());
  return text;
}

// What is too long ends with dots; JSON has all of it.
std::string in_one_line(const std::string& line) {
  return (line.size() <= kLineWidth ? line : line.substr(0, kLineWidth - 4) + " ...") + '\n';
}

// A long sum goes on after a plus sign.
std::string in_lines(std::string_view sum) {
  std::string text;
  while (sum.size() > kLineWidth) {
    const std::size_t end = sum.rfind('+', kLineWidth - 1) + 1;
    text += fmt::format("{}\n", sum.substr(0, end));
    sum.remove_prefix(end);
  }
  return text + fmt::format("{}\n", sum);
}

// The ranges of elements that have the same sum, in the order of their first elements.
class RangesOfTrees {
 public:
  explicit RangesOfTrees(const OrderOfSums& order) : order_(order) {
    for (const OrderOfSums::Range& range : order.ranges) {
      const SumTrees::Tree tree = order.tree_of(range.begin);
      const auto [known, is_new] =
          numbers_.try_emplace(order.trees.number_of_bits(tree), trees_.size());
      if (is_new) trees_.push_back({tree, {}});
      std::vector<OrderOfSums::Range>& ranges = trees_[known->second].ranges;
      const bool joins = !ranges.empty() && ranges.back().end == range.begin;
      joins ? void(ranges.back().end = range.end) : ranges.push_back(range);
    }
  }

  std::string text() const {
    std::string text;
    for (std::size_t i = 0; i < std::min(trees_.size(), kMostTrees); ++i) {
      text += in_one_line(fmt::format("#     {:<24}  {}", text_of(trees_[i].ranges),
                                      order_.trees.text(trees_[i].tree)));
    }
    if (trees_.size() > kMostTrees) {
      text += fmt::format("#     and {} more, which --json has\n", trees_.size() - kMostTrees);
    }
    return text;
  }
  Json json() const {
    Json all = Json::array();
    for (const OfTree& of : trees_) {
      Json ranges = Json::array();
      for (const OrderOfSums::Range& range : of.ranges) ranges.push_back({range.begin, range.end});
      all.push_back({{"tree", order_.trees.text(of.tree)}, {"ranges", ranges}});
    }
    return all;
  }

 private:
  struct OfTree {
    SumTrees::Tree tree = SumTrees::kNone;
    std::vector<OrderOfSums::Range> ranges;
  };

  const OrderOfSums& order_;
  std::map<int, std::size_t> numbers_;  // by SumTrees::number_of_bits()
  std::vector<OfTree> trees_;
};

std::string describe_dependence(const OrderOfSums& order) {
  if (order.sums_of_plan == 1) return "neither on the element's index nor on the size";
  return order.sums_of_call > 1 ? "on the element's index, and on the size"
                                : "on the size; at this one all elements have the same";
}

// Which ranks have the element's sum, and whether its bits are the same on all of them.
std::string describe_ranks(const OrderOfSums& order, const std::vector<SumTrees::Tree>& sums) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < sums.size(); ++rank) {
    if (sums[rank] != SumTrees::kNone) ranks.push_back(static_cast<int>(rank));
  }
  if (ranks.size() == 1) return fmt::format("rank {} alone has the sum", ranks.front());
  const bool are_same = order.has_same_bits(sums);
  return fmt::format("{} of {} have the sum, {}", ranks.size(), sums.size(),
                     are_same ? "with the same bits" : "and their bits differ");
}

// Says by what an average divides (AverageDivisors), and whether that rounds.
std::string describe_average(DType dtype, std::size_t ranks) {
  const auto divisors = AverageDivisors::of(dtype, static_cast<int>(ranks));
  std::string text;
  if (divisors.before != 1) text = fmt::format("each summand by {}", divisors.before);
  if (divisors.after != 1) {
    const bool rounds = std::exp2(std::ilogb(divisors.after)) != divisors.after;
    text += fmt::format("{}the sum by {}{}", text.empty() ? "" : ", then ", divisors.after,
                        rounds ? ", which rounds once more" : "");
  }
  return text.empty() ? "divides by nothing" : "divides " + text;
}

std::string describe_error(DType dtype, int depth) {
  return fmt::format("at most {} u sum|x|, u = 2^{} ({})", depth, std::ilogb(unit_roundoff(dtype)),
                     name_of(dtype));
}

Shard parse_placement(std::string_view option, const std::string& text) {
  return parse_choice(option, text, kHolders, "not known", [](Shard one) { return name_of(one); });
}

ccl::Config load_config(const std::string& file) {
  ccl::Config config = load_ccl(file);
  if (!config.world_size()) return config;
  throw ConfigError("KB-Y043", "world_size in the file of --ccl: groups are of SIPs; take it out");
}

ccl::ReductionCase parse_case(const ProbeOrderArguments& arguments, const Topology& topology,
                              const ccl::Config& config) {
  const CollectiveKind kind =
      parse_choice("--collective", arguments.collective, kSums, "it adds nothing up",
                   [](CollectiveKind one) { return traits_of(one).name; });
  const ccl::Algorithm& algorithm = parse_algorithm(arguments, kind);
  ccl::ReductionCase reduction{topology, config, algorithm, kind,
                               parse_ranks(arguments.ranks, topology)};
  check_fits(algorithm, reduction);
  reduction.dtype = parse_choice("--dtype", arguments.dtype, kDTypes, "not known",
                                 [](DType type) { return name_of(type); });
  reduction.count = parse_count(arguments, reduction.dtype, kind, reduction.sips.size());
  reduction.placement = {.cube = parse_placement("--cube", arguments.cube),
                         .pe = parse_placement("--pe", arguments.pe)};
  return reduction;
}

std::string describe_element(const ccl::ReductionCase& reduction, const OrderOfSums& order,
                             std::int64_t element) {
  const SumTrees::Tree tree = order.tree_of(element);
  const SumTrees::Node& sum = order.trees.node(tree);
  std::string text = in_lines(order.trees.text(tree)) + "#\n";
  text += fmt::format("#   element       {} of {}: {}\n", element, reduction.count,
                      describe_ranks(order, order.sums_of(element)));
  text +=
      fmt::format("#   depth         {} of its {} additions follow each other, and each rounds\n",
                  sum.depth, sum.summands - 1);
  text += fmt::format("#   error         {}\n", describe_error(reduction.dtype, sum.depth));
  text += fmt::format("#   average       {}\n",
                      describe_average(reduction.dtype, reduction.sips.size()));
  return text;
}

}  // namespace

int probe(const ProbeOrderArguments& arguments) {
  const Topology topology = load_topology(arguments.topology);
  const ccl::Config config = load_config(ccl_of(arguments.topology, arguments.ccl));
  const ccl::ReductionCase reduction = parse_case(arguments, topology, config);
  const std::int64_t element = parse_number("--element", arguments.element, 0, reduction.count - 1);
  const OrderOfSums order = ccl::find_order(reduction);
  const RangesOfTrees ranges(order);
  std::string text =
      first_line(fmt::format("the order of sums of {} by {}, {} elements of {}, {} ranks",
                             arguments.collective, reduction.algorithm.name, reduction.count,
                             name_of(reduction.dtype), reduction.sips.size()),
                 topology);
  text += describe_element(reduction, order, element);
  text += fmt::format("#   depends       {}\n", describe_dependence(order));
  text += fmt::format("#   trees         {} at this size, of {}\n", order.sums_of_call,
                      order.sums_of_plan);
  const SumTrees::Node& sum = order.trees.node(order.tree_of(element));
  show(arguments.json,
       Json{{"tree", order.trees.text(order.tree_of(element))},
            {"depth", sum.depth},
            {"additions", sum.summands - 1},
            {"same_bits_on_all_ranks", order.has_same_bits(order.sums_of(element))},
            {"trees_at_this_size", order.sums_of_call},
            {"trees_at_any_size", order.sums_of_plan},
            {"trees", ranges.json()}},
       text + ranges.text());
  return 0;
}

}  // namespace kernbench::benches::cli
