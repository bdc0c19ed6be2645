#include "ccl/algorithms/grid_exchange.h"

namespace kernbench::ccl {

namespace {

// Splits a chunk of x into one part for each position of y.
std::vector<Chunk> split(tl::Context& tl, const Chunk& whole, int count) {
  std::vector<Chunk> parts(static_cast<std::size_t>(count));
  for (const Piece& piece : whole) {
    std::size_t position = 0;
    for (Piece& part : cut(0, piece.count, count)) {
      Chunk& chunk = parts[position++];
      if (part.count == 0) continue;
      part.value = tl.narrow(*piece.value, part.begin, part.count);
      chunk.push_back(std::move(part));
    }
  }
  return parts;
}

// Puts the parts of a chunk together again.
void join(tl::Context& tl, const std::vector<Chunk>& parts, Chunk& whole) {
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::vector<tl::Tensor> values;
    // Parts without elements are left out; they are always the last ones.
    for (const Chunk& part : parts) {
      if (i < part.size()) values.push_back(*part[i].value);
    }
    whole[i].value = tl.cat(values);
  }
}

}  // namespace

GridExchange::GridExchange(tl::Context& tl, const GridPlace& place, bool wraps)
    : tl_(tl),
      colours_(wraps && place.grid.wraps ? 2 : 1),
      x_{place.grid.w, place.grid.x_of(place.index), colours_ == 2, place.port(sim::Compass::east),
         place.port(sim::Compass::west)},
      y_{place.grid.h, place.grid.y_of(place.index), colours_ == 2, place.port(sim::Compass::south),
         place.port(sim::Compass::north)} {}

// `own` are this participant's chunks of x.
void GridExchange::exchange_along_y(std::span<Chunk* const> own) const {
  std::vector<std::vector<Chunk>> parts;
  for (const Chunk* chunk : own) parts.push_back(split(tl_, *chunk, y_.size));
  const std::vector<std::span<Chunk>> by_colour(parts.begin(), parts.end());
  y_.reduce_scatter(tl_, by_colour);
  y_.all_gather(tl_, by_colour);
  for (std::size_t colour = 0; colour < own.size(); ++colour) {
    join(tl_, parts[colour], *own[colour]);
  }
}

void GridExchange::operator()(std::span<Chunk> chunks) const {
  const auto width = static_cast<std::size_t>(x_.size);
  std::vector<std::span<Chunk>> by_colour;
  std::vector<Chunk*> own;
  for (std::size_t first = 0; first < chunks.size(); first += width) {
    by_colour.push_back(chunks.subspan(first, width));
    own.push_back(&by_colour.back()[static_cast<std::size_t>(x_.position)]);
  }
  x_.reduce_scatter(tl_, by_colour);
  if (y_.size > 1) exchange_along_y(own);
  x_.all_gather(tl_, by_colour);
}

}  // namespace kernbench::ccl
