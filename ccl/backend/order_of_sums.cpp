#include "ccl/backend/order_of_sums.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "ccl/backend/choice.h"
#include "ccl/steps/plan_sums.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/check.h"

namespace kernbench::ccl {

using distributed::Block;
using distributed::CollectiveCall;
using distributed::CollectiveKind;

namespace {

using Tree = SumTrees::Tree;

// Names the summands of one member's value.  Where all of them lie on one cube, or on one PE of
// each, that is no name.
std::vector<Summand> name_summands(int member, const std::vector<Lane>& holders) {
  std::vector<Summand> names;
  const auto differ = [&](auto place) {
    return std::ranges::any_of(
        holders, [&](const Lane& one) { return one.*place != holders.front().*place; });
  };
  for (const Lane& holder : holders) {
    names.push_back({member, differ(&Lane::cube) ? holder.cube : kNobody,
                     differ(&Lane::pe) ? holder.pe : kNobody});
  }
  return names;
}

class OrderOfCall {
 public:
  explicit OrderOfCall(PlannedCall& call) : call_(call) {
    for (int node = 0; node < call.member_count() * call.cubes().count; ++node) {
      plans_.push_back(call.find_plan(node));
    }
  }

  OrderOfSums find() {
    const bool is_scattered = call_.settings().kind == CollectiveKind::reduce_scatter;
    for (int taker = 0; taker < (is_scattered ? call_.member_count() : 1); ++taker) {
      add_block(is_scattered ? taker : kNobody);
    }
    join_ranges();
    count_sums();
    return std::move(order_);
  }

 private:
  // Summands as they lie in a slice: by member, each with the cube that has it.
  struct SummandAt {
    Summand name;
    int cube = 0;
    friend auto operator<=>(const SummandAt&, const SummandAt&) = default;
  };
  using Summands = std::vector<std::vector<SummandAt>>;
  // By taker and chunk: the index in OrderOfSums::sums.
  using NumbersOfChunks = std::map<std::pair<int, int>, int>;

  void add_block(int taker) {
    const ChunkRange block{0, 1, kNobody, taker};
    const ChunkPlace place = call_.find_place(0, block);
    const Cut& cut = *place.cut;
    auto channel = cut.channel_of.begin();
    for (const auto& [lane, slices] : cut.slices) {
      for (const Slice& slice : slices) {
        const NumbersOfChunks& numbers = find_numbers(summands_of(slice, block));
        for (int chunk = 0; chunk < plans_.front()->chunk_count; ++chunk) {
          const auto in_slice = [&](int at) {
            return chunk_in_channel(at, *channel, cut.channels, plans_.front()->chunk_count);
          };
          const ChunkExtent extent = extent_of_chunks(slice, in_slice(chunk), in_slice(chunk + 1),
                                                      plans_.front()->chunk_count);
          if (extent.count() == 0) continue;
          add_ranges(extent, slice, place, first_element(taker), numbers.at({taker, chunk}));
        }
      }
      ++channel;
    }
  }

  // The elements of a reduce_scatter are numbered through the blocks for all members.
  std::int64_t first_element(int taker) const {
    std::int64_t first = 0;
    for (int other = 0; other < taker; ++other) {
      first += distributed::block_for(call_.request(0).gives, other)->count;
    }
    return first;
  }

  Summands summands_of(const Slice& slice, const ChunkRange& block) {
    Summands summands;
    for (int member = 0; member < call_.member_count(); ++member) {
      const ChunkPlace place = call_.find_place(member, block);
      const auto layout = static_cast<std::size_t>(place.source_layout);
      const auto rectangle = static_cast<std::size_t>(slice.at[layout].rectangle);
      const std::vector<Lane>& holders =
          place.cut->layouts[layout].tensor->rectangles[rectangle].summand_holders;
      const std::vector<Summand> names = name_summands(member, holders);
      std::vector<SummandAt>& of_member = summands.emplace_back();
      for (std::size_t i = 0; i < names.size(); ++i) {
        of_member.push_back({names[i], holders[i].cube});
      }
    }
    return summands;
  }

  const NumbersOfChunks& find_numbers(Summands summands) {
    const auto [known, is_new] = numbers_of_.try_emplace(std::move(summands));
    if (!is_new) return known->second;
    const CubeTree& cubes = call_.cubes();
    // A kernel adds the summands of a value in the order of its shards (StepsUnderWay::load()).
    const auto own = [&](int node) {
      Tree sum = SumTrees::kNone;
      for (const SummandAt& summand : known->first[static_cast<std::size_t>(node / cubes.count)]) {
        if (cubes.has_sums && summand.cube != node % cubes.count) continue;
        const Tree next = order_.trees.add_summand(summand.name);
        sum = sum == SumTrees::kNone ? next : order_.trees.add(sum, next);
      }
      return sum;
    };
    for (const auto& [chunk, of_nodes] : add_up(plans_, own, order_.trees)) {
      known->second[chunk] = number_of(of_nodes);
    }
    return known->second;
  }

  // The number of the sums of all members, of which each cube stores a copy.
  int number_of(const SumsOfNodes& of_nodes) {
    std::vector<Tree> by_member(static_cast<std::size_t>(call_.member_count()), SumTrees::kNone);
    for (std::size_t node = 0; node < of_nodes.size(); ++node) {
      Tree& tree = by_member[node / static_cast<std::size_t>(call_.cubes().count)];
      if (of_nodes[node] == SumTrees::kNone) continue;
      KB_CHECK(tree == SumTrees::kNone || tree == of_nodes[node], "cubes store different sums");
      tree = of_nodes[node];
    }
    const auto [known, is_new] =
        numbers_.try_emplace(by_member, static_cast<int>(order_.sums.size()));
    if (is_new) order_.sums.push_back(std::move(by_member));
    return known->second;
  }

  // Rows of a slice are consecutive in a shard, whose rows may lie apart in the tensor.
  void add_ranges(const ChunkExtent& extent, const Slice& slice, const ChunkPlace& place,
                  std::int64_t first, int number) {
    const auto index = static_cast<std::size_t>(place.source_layout);
    const BlockLayout& block = place.cut->layouts[index];
    const SliceAt at = extent.at(slice.at[index]);
    const Rectangle& rectangle = block.tensor->rectangles[static_cast<std::size_t>(at.rectangle)];
    for (std::int64_t row = 0; row < extent.rows; ++row) {
      std::int64_t position = at.offset + row * at.pitch;
      const std::int64_t end = position + extent.columns;
      while (position < end) {
        const std::int64_t column = position % rectangle.columns;
        const std::int64_t count = std::min(end - position, rectangle.columns - column);
        const std::int64_t in_tensor =
            (rectangle.first_row + position / rectangle.columns) * block.tensor->columns +
            rectangle.first_column + column;
        const std::int64_t begin = first + in_tensor - block.first;
        order_.ranges.push_back({begin, begin + count, number});
        position += count;
      }
    }
  }

  void join_ranges() {
    std::ranges::sort(order_.ranges, {}, &OrderOfSums::Range::begin);
    std::vector<OrderOfSums::Range> joined;
    for (const OrderOfSums::Range& range : order_.ranges) {
      const bool follows = joined.empty() || joined.back().end == range.begin;
      KB_CHECK(follows, "no sum is known of the elements before {}", range.begin);
      if (!joined.empty() && joined.back().sums == range.sums) {
        joined.back().end = range.end;
      } else {
        joined.push_back(range);
      }
    }
    order_.ranges = std::move(joined);
  }

  void count_sums() {
    std::set<int> of_plan;
    for (const std::vector<Tree>& by_member : order_.sums) note(by_member, of_plan);
    order_.sums_of_plan = static_cast<int>(of_plan.size());
    std::set<int> numbers;
    for (const OrderOfSums::Range& range : order_.ranges) numbers.insert(range.sums);
    std::set<int> of_call;
    for (const int number : numbers) {
      note(order_.sums[static_cast<std::size_t>(number)], of_call);
    }
    order_.sums_of_call = static_cast<int>(of_call.size());
  }
  void note(const std::vector<Tree>& trees, std::set<int>& numbers) const {
    for (const Tree tree : trees) {
      if (tree != SumTrees::kNone) numbers.insert(order_.trees.number_of_bits(tree));
    }
  }

  PlannedCall& call_;
  std::vector<std::shared_ptr<const Plan>> plans_;  // by node
  std::map<Summands, NumbersOfChunks> numbers_of_;
  std::map<std::vector<Tree>, int> numbers_;  // by sums: their index in OrderOfSums::sums
  OrderOfSums order_;
};

// Returns the call that a member makes.
CollectiveCall call_of(RuntimeContext& torch, const ReductionCase& reduction, int member) {
  torch.ahbm.set_device(reduction.sips[static_cast<std::size_t>(member)]);
  const auto size = static_cast<std::int64_t>(reduction.sips.size());
  const TensorOptions options{.dtype = reduction.dtype, .dp = reduction.placement};
  const Tensor x = torch.empty({reduction.count}, options);
  CollectiveCall call;
  call.kind = reduction.kind;
  call.root = reduction.root;
  call.rank = member;
  call.placement = reduction.placement;
  call.gives = call.takes = {distributed::whole(x)};
  if (reduction.kind != CollectiveKind::reduce_scatter) return call;
  const std::int64_t count = reduction.count / size;
  call.gives.clear();
  for (int other = 0; other < size; ++other) call.gives.push_back({x, other * count, count});
  call.takes = {distributed::whole(torch.empty({count}, options))};
  return call;
}

}  // namespace

const std::vector<Tree>& OrderOfSums::sums_of(std::int64_t element) const {
  const auto behind = std::ranges::upper_bound(ranges, element, {}, &Range::begin);
  KB_CHECK(behind != ranges.begin() && element < std::prev(behind)->end, "no element {}", element);
  return sums[static_cast<std::size_t>(std::prev(behind)->sums)];
}

Tree OrderOfSums::tree_of(std::int64_t element) const {
  const std::vector<Tree>& by_member = sums_of(element);
  const auto found =
      std::ranges::find_if(by_member, [](Tree tree) { return tree != SumTrees::kNone; });
  KB_CHECK(found != by_member.end(), "nobody has element {}", element);
  return *found;
}

bool OrderOfSums::has_same_bits(const std::vector<Tree>& by_member) const {
  std::set<int> bits;
  for (const Tree tree : by_member) {
    if (tree != SumTrees::kNone) bits.insert(trees.number_of_bits(tree));
  }
  return bits.size() <= 1;
}

OrderOfSums find_order(PlannedCall& call) {
  return OrderOfCall(call).find();
}

OrderOfSums find_order(const ReductionCase& reduction) {
  const Topology& topology = reduction.topology;
  const GroupShape shape = shape_of_sips(topology, reduction.sips);
  const AlgorithmChoice choice(topology, reduction.config, shape, reduction.sips, "");
  const Bytes size = reduction.count * size_of(reduction.dtype);
  const bool is_scattered = reduction.kind == CollectiveKind::reduce_scatter;
  const Bytes block = is_scattered ? size / shape.size : size;
  const bool is_of_all = shape.size == topology.system.sip_count;
  const bool has_protocol = choice.protocol_for(reduction.kind, block, size) != nullptr;
  PlannedCall call(topology, std::make_shared<CutCache>(topology),
                   std::make_shared<PlanCache>(shape), {reduction.sips, {}},
                   CallSettings::of(reduction.config, reduction.algorithm, reduction.kind,
                                    is_of_all && !has_protocol));
  RuntimeContext torch(topology, {.data = false});
  for (int member = 0; member < shape.size; ++member) {
    call.requests[static_cast<std::size_t>(member)] = call_of(torch, reduction, member);
  }
  call.prepare();
  return find_order(call);
}

}  // namespace kernbench::ccl
