#include "ccl/algorithms/sip_exchange.h"

namespace kernbench::ccl {

namespace {

enum class Pass { reduce_scatter, all_gather };

int colour_count(const sim::Grid& sips) {
  return sips.wraps ? 2 : 1;
}

// One dimension of the grid as one SIP sees it, with what is exchanged along it: a chunk for each
// colour (direction of travel) and position.  After the reduce-scatter every position holds the
// sums of its own chunks.
class Dimension {
 public:
  Dimension(tl::Context& tl, int size, int position, tl::Direction forward, bool wraps)
      : tl_(tl), size_(size), position_(position), forward_(forward), wraps_(wraps) {}

  int position() const { return position_; }
  int size() const { return size_; }

  // `chunks` are those of each colour, by position.
  void reduce_scatter(std::span<const std::span<Chunk>> chunks) {
    if (size_ > 1) wraps_ ? ring(Pass::reduce_scatter, chunks) : line_reduce_scatter(chunks[0]);
  }
  void all_gather(std::span<const std::span<Chunk>> chunks) {
    if (size_ > 1) wraps_ ? ring(Pass::all_gather, chunks) : line_all_gather(chunks[0]);
  }

 private:
  void ring(Pass pass, std::span<const std::span<Chunk>> chunks);
  void line_reduce_scatter(std::span<Chunk> chunks);
  void line_all_gather(std::span<Chunk> chunks);

  tl::Direction ahead(std::size_t colour) const {
    return colour == 0 ? forward_ : opposite(forward_);
  }
  tl::Direction behind(std::size_t colour) const { return opposite(ahead(colour)); }

  // The position that is `steps` behind in a colour's direction of travel.
  std::size_t position_behind(std::size_t colour, int steps) const {
    const int position = colour == 0 ? position_ - steps : position_ + steps;
    return static_cast<std::size_t>((position % size_ + size_) % size_);
  }

  void send(tl::Direction direction, const Chunk& chunk) {
    if (!chunk.empty()) tl_.send(direction, *chunk.value);
  }
  void receive(tl::Direction direction, Chunk& chunk) {
    if (!chunk.empty()) chunk.value = tl_.recv(direction, chunk.shape(), chunk.value->dtype());
  }
  void receive_and_add(tl::Direction direction, Chunk& chunk) {
    if (!chunk.empty()) {
      chunk.value = *chunk.value + tl_.recv(direction, chunk.shape(), chunk.value->dtype());
    }
  }

  tl::Context& tl_;
  const int size_;
  const int position_;
  const tl::Direction forward_;
  const bool wraps_;
};

// Step s sends what has been collected of the chunk 1 + s (reduce-scatter) or s (all-gather)
// positions back, and receives the one behind it; the last sum to arrive is that of the own chunk.
void Dimension::ring(Pass pass, std::span<const std::span<Chunk>> chunks) {
  const bool reduces = pass == Pass::reduce_scatter;
  for (int step = 0; step < size_ - 1; ++step) {
    const int sent = step + (reduces ? 1 : 0);
    for (std::size_t colour = 0; colour < chunks.size(); ++colour) {
      send(ahead(colour), chunks[colour][position_behind(colour, sent)]);
    }
    for (std::size_t colour = 0; colour < chunks.size(); ++colour) {
      Chunk& next = chunks[colour][position_behind(colour, sent + 1)];
      reduces ? receive_and_add(behind(colour), next) : receive(behind(colour), next);
    }
  }
}

// Partial sums flow from both ends towards each chunk's position, those for the farthest first.  A
// position meets message m of a flow one slot after its neighbour did.
void Dimension::line_reduce_scatter(std::span<Chunk> chunks) {
  const int last = size_ - 1;
  for (int slot = 0; slot <= last; ++slot) {
    if (const int target = last - (slot - position_); slot >= position_) {  // the flow forward
      Chunk& passing = chunks[static_cast<std::size_t>(target)];
      if (position_ > 0) receive_and_add(opposite(forward_), passing);
      if (target > position_) send(forward_, passing);
    }
    if (const int target = slot - (last - position_); target >= 0) {  // the flow backward
      Chunk& passing = chunks[static_cast<std::size_t>(target)];
      if (position_ < last) receive_and_add(forward_, passing);
      if (target < position_) send(opposite(forward_), passing);
    }
  }
}

// Every position sends its own chunk both ways, and passes on what it gets: the chunks of the
// positions 1, 2, ... away.
void Dimension::line_all_gather(std::span<Chunk> chunks) {
  const int last = size_ - 1;
  for (int away = 0; away <= last; ++away) {
    const int lower = position_ - away;
    const int upper = position_ + away;
    if (lower >= 0) {
      Chunk& chunk = chunks[static_cast<std::size_t>(lower)];
      if (away > 0) receive(opposite(forward_), chunk);
      if (position_ < last) send(forward_, chunk);
    }
    if (upper <= last) {
      Chunk& chunk = chunks[static_cast<std::size_t>(upper)];
      if (away > 0) receive(forward_, chunk);
      if (position_ > 0) send(opposite(forward_), chunk);
    }
  }
}

// A chunk of x cut in one part for each position of y, and put together again.

std::vector<Chunk> split(tl::Context& tl, const Chunk& whole, int count) {
  std::vector<Chunk> parts = cut(0, whole.count, count);
  for (Chunk& part : parts) {
    if (!part.empty()) part.value = tl.narrow(*whole.value, part.begin, part.count);
  }
  return parts;
}

void join(tl::Context& tl, const std::vector<Chunk>& parts, Chunk& whole) {
  std::vector<tl::Tensor> values;
  for (const Chunk& part : parts) {
    if (!part.empty()) values.push_back(*part.value);
  }
  if (!values.empty()) whole.value = tl.cat(values);
}

// What is exchanged along y: the own chunks of x.
void exchange_along_y(tl::Context& tl, Dimension& y, std::span<Chunk* const> own) {
  std::vector<std::vector<Chunk>> parts;
  for (const Chunk* chunk : own) parts.push_back(split(tl, *chunk, y.size()));
  const std::vector<std::span<Chunk>> by_colour(parts.begin(), parts.end());
  y.reduce_scatter(by_colour);
  y.all_gather(by_colour);
  for (std::size_t colour = 0; colour < own.size(); ++colour) join(tl, parts[colour], *own[colour]);
}

}  // namespace

int sip_exchange_chunk_count(const sim::Grid& sips) {
  return colour_count(sips) * sips.w;
}

void sip_exchange(tl::Context& tl, const KernelArgs& args, std::span<Chunk> chunks) {
  const sim::Grid& sips = args.sips;
  const int sip = tl.location().sip;
  Dimension x(tl, sips.w, sips.x_of(sip), tl::Direction::global_east, sips.wraps);
  Dimension y(tl, sips.h, sips.y_of(sip), tl::Direction::global_south, sips.wraps);

  const auto width = static_cast<std::size_t>(sips.w);
  std::vector<std::span<Chunk>> by_colour;
  std::vector<Chunk*> own;
  for (std::size_t first = 0; first < chunks.size(); first += width) {
    by_colour.push_back(chunks.subspan(first, width));
    own.push_back(&by_colour.back()[static_cast<std::size_t>(x.position())]);
  }
  x.reduce_scatter(by_colour);
  if (y.size() > 1) exchange_along_y(tl, y, own);
  x.all_gather(by_colour);
}

}  // namespace kernbench::ccl
