#include <fmt/format.h>

#include "tp/misuse.h"
#include "tp/parameter.h"

namespace kernbench::tp {

std::int64_t divide(std::int64_t numerator, std::int64_t denominator, std::string_view what) {
  if (denominator == 0 || numerator % denominator != 0) {
    not_divisible(fmt::format("{} is not divisible by {}{}{}", numerator, denominator,
                              what.empty() ? "" : ": ", what));
  }
  return numerator / denominator;
}

VocabRange vocab_range_from_per_partition_vocab_size(std::int64_t per_partition_vocab_size,
                                                     int rank) {
  const std::int64_t begin = rank * per_partition_vocab_size;
  return {begin, begin + per_partition_vocab_size};
}

VocabRange vocab_range_from_global_vocab_size(std::int64_t global_vocab_size, int rank,
                                              int world_size) {
  return vocab_range_from_per_partition_vocab_size(divide(global_vocab_size, world_size), rank);
}

std::int64_t padded_vocab_size(std::int64_t vocab_size, int world_size,
                               std::int64_t make_vocab_size_divisible_by) {
  const std::int64_t multiple = make_vocab_size_divisible_by * world_size;
  return (vocab_size + multiple - 1) / multiple * multiple;
}

}  // namespace kernbench::tp
