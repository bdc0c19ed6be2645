#include "ccl/steps/alike_steps.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

namespace kernbench::ccl {

namespace {

// Compares two lists step by step.  Members number the values that they hold in orders of their
// own, so the numbers need only stand for each other.  A step may put its values together in
// another order: their places differ between members, and take no time.
class Comparison {
 public:
  Comparison(const StepList& one, const StepList& other,
             const std::function<bool(int, int)>& are_same)
      : one_(one),
        other_(other),
        are_same_(are_same),
        held_by_other_(static_cast<std::size_t>(one.held_count), kNobody) {}

  bool are_alike() {
    return one_.held_count == other_.held_count &&
           std::ranges::equal(one_.steps, other_.steps,
                              [this](const Step& a, const Step& b) { return are_alike(a, b); });
  }

 private:
  bool are_alike(const Step& a, const Step& b) {
    const auto is_same_peer = [this](int peer, int of_other) {
      return are_same_(one_.nodes[static_cast<std::size_t>(peer)],
                       other_.nodes[static_cast<std::size_t>(of_other)]);
    };
    const auto as_of_other = [this](const HeldElements& x) {
      return std::pair(held_by_other_[static_cast<std::size_t>(x.value)], x.count);
    };
    const auto own = [](const HeldElements& y) { return std::pair(y.value, y.count); };
    const bool are_equal =
        have_equal_form(a, b) && lie_alike(a.source, b.source) && lie_alike(a.target, b.target) &&
        std::ranges::is_permutation(one_.taken_by(a), other_.taken_by(b), {}, as_of_other, own) &&
        std::ranges::equal(one_.senders(a), other_.senders(b), is_same_peer) &&
        std::ranges::equal(one_.receivers(a), other_.receivers(b), is_same_peer);
    if (a.held != kNobody) held_by_other_[static_cast<std::size_t>(a.held)] = b.held;
    return are_equal;
  }

  static bool have_equal_form(const Step& a, const Step& b) {
    const auto form = [](const Step& step) {
      return std::tuple(step.time, step.slice, step.held == kNobody, step.uses, step.from_count,
                        step.to_count, step.is_complete, step.rows, step.columns);
    };
    return form(a) == form(b);
  }

  bool lie_alike(const ShardRange& a, const ShardRange& b) const {
    if (!a.is_there() || !b.is_there()) return a.is_there() == b.is_there();
    const auto place = [](const Shards& shards) {
      const Rectangle& rectangle = *shards.rectangle;
      return std::tie(shards.is_taken, shards.cube, rectangle.copies, rectangle.holders,
                      rectangle.summands, rectangle.summand_holders);
    };
    return a.pitch == b.pitch && place(one_.shards[static_cast<std::size_t>(a.shards)]) ==
                                     place(other_.shards[static_cast<std::size_t>(b.shards)]);
  }

  const StepList& one_;
  const StepList& other_;
  const std::function<bool(int, int)>& are_same_;
  std::vector<int> held_by_other_;  // by number of the one's: the other's number of that value
};

}  // namespace

bool are_alike(const StepList& one, const StepList& other,
               const std::function<bool(int of_one, int of_other)>& are_same) {
  return Comparison(one, other, are_same).are_alike();
}

}  // namespace kernbench::ccl
