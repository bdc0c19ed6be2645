#include "sim_engine/components/tile_pipeline.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/components/gemm_array.h"

namespace kernbench::sim {

namespace {

// Moments of the PE that is served first, and of the one that is served last.
struct Moments {
  Wide first = 0;
  Wide last = 0;

  Moments after(Time time) const { return {first + time.count(), last + time.count()}; }
};
Moments later(const Moments& a, const Moments& b) {
  return {std::max(a.first, b.first), std::max(a.last, b.last)};
}

// Serves the PEs of the launch in the order in which they ask.  PEs between the first and the last
// one ask at times between theirs, evenly.
class Server {
 public:
  // Returns when the transfers of the first and the last PE are served.
  Moments serve(const Moments& at, const Service& service) {
    const Wide first = std::max(at.first, first_served_ + ahead_of(at.first)) + service.alone;
    of_others_ = std::max(service.together - service.alone, Wide{0});
    all_served_ = std::max(all_served_, at.first) + service.alone + of_others_;
    asked_ = at;
    first_served_ = first;
    return {first, std::max({at.last + service.alone, at.first + service.at_once, all_served_})};
  }

 private:
  // Returns what others have asked for since the first PE did, and before `time`.
  Wide ahead_of(Wide time) const {
    const Wide passed = time - asked_.first;
    const Wide spread = asked_.last - asked_.first;
    if (passed >= spread) return of_others_;
    return passed > 0 ? of_others_ * passed / spread : Wide{0};
  }

  Moments asked_;
  Wide of_others_ = 0;
  Wide first_served_ = 0;
  Wide all_served_ = 0;
};

// The cut of one dimension.  All tiles but the last are of kind 0, and the last is of kind 1 if it
// is smaller.
struct Cut {
  std::int64_t count;
  std::array<std::int64_t, 2> sizes;

  Cut(std::int64_t size, std::int64_t tile)
      : count(ceil_divide(size, tile)), sizes{tile, size % tile} {}

  std::size_t kind_of(std::int64_t index) const {
    return index == count - 1 && sizes[1] > 0 ? 1 : 0;
  }
};

class Pipeline {
 public:
  Pipeline(const CompositePlan& plan, const Topology::Pe& pe, const WaysOfTiles& ways, Wide most);

  Wide run();

 private:
  // After so many tiles along a dimension, those up to the last one take as long as the latest two.
  static constexpr std::int64_t kSettled = 3;

  using Kinds = std::array<std::size_t, 3>;  // of m, n and k
  // Where a step stands among the tiles of the result, and in k.
  struct Place {
    bool is_first_row;
    bool is_first_column;
    bool begins_result;
    bool ends_result;
  };

  Wide cost_of_product(const GemmSize& size) const;
  template <class Body>
  void for_each_tile(const Cut& cut, const Body& body);
  void step(const Kinds& kinds, const Place& place);
  Moments bring(const OperandAt& operand, const TileLoad& tile, bool is_new, const Moments& issued);
  Moments take(const OperandAt& operand, const Service& service, const Moments& come);
  Moments load(const TileLoad& a, const TileLoad& b, const Place& place);
  Moments set_up(Server& channel, const Moments& issued, std::int64_t descriptors);
  Moments pass_hbm(const Moments& at, const Service& service);
  void store_next();
  Wide now() const { return ends_[1].last + skipped_; }

  const CompositePlan& plan_;
  const Topology::Pe& pe_;
  const WaysOfTiles& ways_;
  const Wide most_;
  const TileTraffic traffic_;
  const Cut along_m_;
  const Cut along_n_;
  const Cut along_k_;
  std::array<std::array<TileLoad, 2>, 2> loads_of_a_;  // by kind of m, and of k
  std::array<std::array<TileLoad, 2>, 2> loads_of_b_;  // by kind of n, and of k
  std::array<Wide, 8> products_{};                     // by kinds of m, n and k

  Server load_channel_;
  Server store_channel_;
  Server hbm_;
  Server cubes_;
  Server sram_;
  std::array<Moments, 2> ends_{};  // of the latest two products
  Moments dispatched_;             // the latest product
  Moments stored_;                 // the latest result whose store has been served
  struct PendingStore {
    Moments end;
    Bytes bytes;
  };
  // The results of the latest two steps: loads of the next step go before the store of this one.
  std::array<std::optional<PendingStore>, 2> pending_;
  Wide skipped_ = 0;
};

Pipeline::Pipeline(const CompositePlan& plan, const Topology::Pe& pe, const WaysOfTiles& ways,
                   Wide most)
    : plan_(plan),
      pe_(pe),
      ways_(ways),
      most_(most),
      traffic_(plan, ways),
      along_m_(plan.size.m, plan.tile.m),
      along_n_(plan.size.n, plan.tile.n),
      along_k_(plan.size.k, plan.tile.k) {
  for (std::size_t k = 0; k < 2; ++k) {
    for (std::size_t side = 0; side < 2; ++side) {
      loads_of_a_[side][k] = traffic_.cost_of(plan.a, along_m_.sizes[side], along_k_.sizes[k]);
      loads_of_b_[side][k] = traffic_.cost_of(plan.b, along_n_.sizes[side], along_k_.sizes[k]);
      for (std::size_t m = 0; m < 2; ++m) {
        products_[4 * m + 2 * side + k] =
            cost_of_product({along_m_.sizes[m], along_n_.sizes[side], along_k_.sizes[k]});
      }
    }
  }
}

// Where k is cut, all products count as if they added to the sums before them, which are f32.
Wide Pipeline::cost_of_product(const GemmSize& size) const {
  const bool adds = along_k_.count > 1;
  const DType sums = adds ? DType::f32 : plan_.c.buffer.dtype;
  const auto use = gemm_array_use(pe_.gemm, size, size_of(plan_.a.buffer.dtype));
  const ComputeTraffic traffic =
      gemm_traffic(pe_.gemm, size,
                   {size_of(plan_.a.buffer.dtype), size_of(plan_.b.buffer.dtype), size_of(sums),
                    adds ? size.m * size.n * size_of(sums) : 0});
  const Bandwidth port = pe_.tcm.compute_bandwidth;
  return std::max({to_picoseconds(use ? use->cycles : 0, pe_.gemm.clock),
                   to_picoseconds(traffic.read, port), to_picoseconds(traffic.written, port)});
}

// Calls body(kind, index is the first, index is the last) for tiles along a dimension, until the
// time, which never shrinks, exceeds the longest that counts.
template <class Body>
void Pipeline::for_each_tile(const Cut& cut, const Body& body) {
  std::array<Wide, 2> before{};  // the latest two tiles
  for (std::int64_t i = 0; i < cut.count && now() <= most_; ++i) {
    before = {before[1], now()};
    body(cut.kind_of(i), i == 0, i == cut.count - 1);
    const std::int64_t others = cut.count - 2 - i;
    if (i < kSettled || others <= 0) continue;
    skipped_ += others * (now() - before[0]) / 2;
    i += others;
  }
}

// Returns when so many descriptors of a command are set up.
Moments Pipeline::set_up(Server& channel, const Moments& issued, std::int64_t descriptors) {
  const Service setup{.alone = (descriptors * pe_.dma_setup).count()};
  return channel.serve(issued.after(pe_.scheduler_dispatch), setup).after(pe_.mmu_latency);
}

Moments Pipeline::pass_hbm(const Moments& at, const Service& service) {
  return hbm_.serve(at, service).after(ways_.hbm.alone.latency);
}

// Returns when the tile has come to the PE, or to SRAM if it is shared.  A new tile that PEs of the
// cube share comes when the first one has asked for it.
Moments Pipeline::bring(const OperandAt& operand, const TileLoad& tile, bool is_new,
                        const Moments& issued) {
  const Moments asked = set_up(load_channel_, issued, tile.transfers);
  if (!operand.is_shared()) return pass_hbm(asked, tile.hbm);
  if (!is_new) return asked;
  const bool in_common = operand.readers.in_cube > 1;
  Moments come = {asked.first, in_common ? asked.first : asked.last};
  come = hbm_.serve(come, tile.hbm).after(ways_.hbm_to_sram);
  if (tile.crosses) come = cubes_.serve(come, tile.cubes).after(ways_.cubes.latency);
  return later(asked, come);
}

Moments Pipeline::take(const OperandAt& operand, const Service& service, const Moments& come) {
  if (!operand.is_shared()) return come;
  return sram_.serve(come, service).after(ways_.sram.alone.latency);
}

// Returns when both tiles of a step have come.  SRAM gives the one first that is there first.
Moments Pipeline::load(const TileLoad& a, const TileLoad& b, const Place& place) {
  const bool a_is_new = place.is_first_column || !traffic_.keeps_a();
  const bool b_is_new = place.is_first_row || !traffic_.keeps_b();
  const Service& of_a = a_is_new ? a.sram_new : a.sram_kept;
  const Service& of_b = b_is_new ? b.sram_new : b.sram_kept;
  const Moments a_come = bring(plan_.a, a, a_is_new, ends_[0]);
  const Moments b_come = bring(plan_.b, b, b_is_new, ends_[0]);
  if (b_come.first < a_come.first) {
    const Moments taken = take(plan_.b, of_b, b_come);
    return later(taken, take(plan_.a, of_a, a_come));
  }
  const Moments taken = take(plan_.a, of_a, a_come);
  return later(taken, take(plan_.b, of_b, b_come));
}

void Pipeline::store_next() {
  if (pending_[0]) {
    const Moments set = set_up(store_channel_, pending_[0]->end, 1);
    stored_ = pass_hbm(set, traffic_.own_transfer(pending_[0]->bytes));
  }
  pending_[0] = std::exchange(pending_[1], std::nullopt);
}

void Pipeline::step(const Kinds& kinds, const Place& place) {
  const auto [m, n, k] = kinds;
  const Moments issued = ends_[0];
  Moments ready = load(loads_of_a_[m][k], loads_of_b_[n][k], place);
  store_next();
  if (place.begins_result) {
    ready = later(ready, stored_);
    if (plan_.bias) {
      const Bytes bytes = along_n_.sizes[n] * size_of(plan_.bias->buffer.dtype);
      const Moments set = set_up(load_channel_, later(issued, stored_), 1);
      pass_hbm(set, traffic_.own_transfer(bytes));
    }
  }
  dispatched_ = later(ready, dispatched_).after(pe_.scheduler_dispatch);
  const Moments begun = later(dispatched_, ends_[1]);
  const Wide product = products_[4 * m + 2 * n + k];
  ends_ = {ends_[1], {begun.first + product, begun.last + product}};
  if (!place.ends_result) return;
  pending_[1] = {ends_[1], along_m_.sizes[m] * along_n_.sizes[n] * size_of(plan_.c.buffer.dtype)};
}

Wide Pipeline::run() {
  ends_.fill({0, ways_.launch_spread.count()});
  for_each_tile(along_m_, [&](std::size_t m, bool is_first_row, bool) {
    for_each_tile(along_n_, [&](std::size_t n, bool is_first_column, bool) {
      for_each_tile(along_k_, [&](std::size_t k, bool begins, bool ends) {
        step({m, n, k}, {is_first_row, is_first_column, begins, ends});
      });
    });
  });
  store_next();
  store_next();
  return std::max(ends_[1].last, stored_.last) + skipped_;
}

}  // namespace

Wide estimate_time(const CompositePlan& plan, const Topology::Pe& pe, const WaysOfTiles& ways,
                   Wide most) {
  return Pipeline(plan, pe, ways, most).run();
}

}  // namespace kernbench::sim
