#include "ccl/algorithms/sip_exchange.h"

#include <algorithm>

namespace kernbench::ccl {

namespace {

enum class Pass { reduce_scatter, all_gather };

int colour_count(const sim::Grid& sips) {
  return sips.wraps ? 2 : 1;
}

// One dimension of the grid, as one SIP sees it, with the chunks that are exchanged along it: for
// each colour (direction of travel) and position a group of `per_group` chunks.  In the end of the
// reduce-scatter every position holds the sums of its own group.
class Dimension {
 public:
  Dimension(tl::Context& tl, int depth, int size, int position, tl::Direction forward)
      : tl_(tl), depth_(depth), size_(size), position_(position), forward_(forward) {}

  void set_groups(std::vector<std::vector<Chunk*>> groups_of_colours, int per_group) {
    groups_ = std::move(groups_of_colours);
    per_group_ = per_group;
    // How many messages are sent before the first is received: enough to keep a link busy, and no
    // more than a queue's slots, or all would wait for credits before anybody receives.
    lead_ = std::clamp(per_group_, 1, depth_);
  }

  void ring(Pass pass);
  void line_reduce_scatter();
  void line_all_gather();

 private:
  tl::Direction ahead(int colour) const { return colour == 0 ? forward_ : opposite(forward_); }
  tl::Direction behind(int colour) const { return opposite(ahead(colour)); }

  Chunk& chunk(int colour, int group, int member) {
    const int wrapped = ((group % size_) + size_) % size_;
    return *groups_[static_cast<std::size_t>(colour)]
                   [static_cast<std::size_t>(wrapped * per_group_ + member)];
  }
  // Message `index` of a ring, `offset` steps behind in the direction of travel.
  Chunk& ring_chunk(int colour, int index, int offset) {
    const int steps = offset + index / per_group_;
    return chunk(colour, colour == 0 ? position_ - steps : position_ + steps, index % per_group_);
  }

  void send(tl::Direction direction, const Chunk& chunk) {
    if (!chunk.empty()) tl_.send(direction, *chunk.value);
  }
  void receive_and_add(tl::Direction direction, Chunk& chunk) {
    if (!chunk.empty()) {
      chunk.value = *chunk.value + tl_.recv(direction, chunk.shape(), chunk.value->dtype());
    }
  }
  void receive(tl::Direction direction, Chunk& chunk) {
    if (!chunk.empty()) chunk.value = tl_.recv(direction, chunk.shape(), chunk.value->dtype());
  }

  tl::Context& tl_;
  const int depth_;
  const int size_;
  const int position_;
  const tl::Direction forward_;
  std::vector<std::vector<Chunk*>> groups_;  // by colour; group g's begin at g * per_group_
  int per_group_ = 1;
  int lead_ = 1;
};

// Step s sends what has been collected of the group 1 + s (reduce-scatter) or s (all-gather)
// positions back, and receives the one behind it; the last sum to arrive is the own group's.
void Dimension::ring(Pass pass) {
  const bool reduces = pass == Pass::reduce_scatter;
  const int offset = reduces ? 1 : 0;
  const int colours = static_cast<int>(groups_.size());
  const int messages = (size_ - 1) * per_group_;
  for (int i = 0; i < messages + lead_ - 1; ++i) {
    for (int colour = 0; colour < colours && i < messages; ++colour) {
      send(ahead(colour), ring_chunk(colour, i, offset));
    }
    const int arrived = i - (lead_ - 1);
    for (int colour = 0; colour < colours && arrived >= 0; ++colour) {
      Chunk& next = ring_chunk(colour, arrived, offset + 1);
      reduces ? receive_and_add(behind(colour), next) : receive(behind(colour), next);
    }
  }
}

// Partial sums flow from both ends towards each group's position; the farthest group goes first.  A
// position meets message m of the flow from its near end `lead` slots after its neighbour did.
void Dimension::line_reduce_scatter() {
  const int last = size_ - 1;
  const int from_west = (size_ - position_) * per_group_;  // messages of the flow that goes forward
  const int from_east = (position_ + 1) * per_group_;
  const int slots = std::max(position_ * lead_ + from_west, (last - position_) * lead_ + from_east);
  for (int slot = 0; slot < slots; ++slot) {
    if (const int m = slot - position_ * lead_; m >= 0 && m < from_west) {
      const int group = last - m / per_group_;
      Chunk& passing = chunk(0, group, m % per_group_);
      if (position_ > 0) receive_and_add(opposite(forward_), passing);
      if (group > position_) send(forward_, passing);
    }
    if (const int m = slot - (last - position_) * lead_; m >= 0 && m < from_east) {
      const int group = m / per_group_;
      Chunk& passing = chunk(0, group, m % per_group_);
      if (position_ < last) receive_and_add(forward_, passing);
      if (group < position_) send(opposite(forward_), passing);
    }
  }
}

// Every position sends its own group both ways, and passes on what it gets: the groups of the
// positions 1, 2, ... away, each once it has been received.
void Dimension::line_all_gather() {
  const int last = size_ - 1;
  for (int slot = 0; slot < last * per_group_ + lead_; ++slot) {
    if (const int arrived = slot - lead_; arrived >= 0) {
      const int away = 1 + arrived / per_group_;
      const int member = arrived % per_group_;
      if (away <= position_) receive(opposite(forward_), chunk(0, position_ - away, member));
      if (away <= last - position_) receive(forward_, chunk(0, position_ + away, member));
    }
    const int away = slot / per_group_;
    const int member = slot % per_group_;
    if (position_ < last && away <= position_) send(forward_, chunk(0, position_ - away, member));
    if (position_ > 0 && away <= last - position_) {
      send(opposite(forward_), chunk(0, position_ + away, member));
    }
  }
}

}  // namespace

int sip_exchange_chunk_count(const sim::Grid& sips) {
  return colour_count(sips) * sips.count();
}

void sip_exchange(tl::Context& tl, const KernelArgs& args, std::vector<Chunk>& chunks) {
  const sim::Grid& sips = args.sips;
  const int sip = tl.location().sip;
  const int own_x = sips.x_of(sip);
  Dimension x(tl, args.depth, sips.w, own_x, tl::Direction::global_east);
  Dimension y(tl, args.depth, sips.h, sips.y_of(sip), tl::Direction::global_south);

  // Chunk (colour, column, row).  Along x whole columns travel, along y the own column's members.
  std::vector<std::vector<Chunk*>> columns;
  std::vector<std::vector<Chunk*>> own_column;
  for (int colour = 0; colour < colour_count(sips); ++colour) {
    Chunk* first = chunks.data() + colour * sips.count();
    columns.emplace_back();
    for (int i = 0; i < sips.count(); ++i) columns.back().push_back(first + i);
    own_column.emplace_back();
    for (int row = 0; row < sips.h; ++row)
      own_column.back().push_back(first + own_x * sips.h + row);
  }
  x.set_groups(std::move(columns), sips.h);
  y.set_groups(std::move(own_column), 1);

  const auto scatter = [&](Dimension& d) {
    sips.wraps ? d.ring(Pass::reduce_scatter) : d.line_reduce_scatter();
  };
  const auto gather = [&](Dimension& d) {
    sips.wraps ? d.ring(Pass::all_gather) : d.line_all_gather();
  };
  if (sips.w > 1) scatter(x);
  if (sips.h > 1) scatter(y);
  if (sips.h > 1) gather(y);
  if (sips.w > 1) gather(x);
}

}  // namespace kernbench::ccl
