#include <catch2/catch.hpp>

#include "sim_engine/base/error.h"
#include "test/support/error_text.h"
#include "tp/parameter.h"

namespace kernbench::tp::partition_test {

TEST_CASE("divide is exact or refuses in Megatron's words", "[tp][partition]") {
  CHECK(divide(12, 4) == 3);
  CHECK(divide(0, 4) == 0);
  CHECK_THROWS_MATCHES(divide(12, 5), CollectiveError,
                       test::Says("KB-T001", "12 is not divisible by 5"));
  CHECK_THROWS_AS(divide(12, 0), CollectiveError);
}

TEST_CASE("vocabulary ranges of all ranks lie side by side", "[tp][partition]") {
  CHECK(vocab_range_from_per_partition_vocab_size(400, 3) == VocabRange{1200, 1600});
  std::int64_t next = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const VocabRange range = vocab_range_from_global_vocab_size(1600, rank, 4);
    CHECK(range.begin == next);
    CHECK(range.end - range.begin == 400);
    next = range.end;
  }
  CHECK(next == 1600);
  CHECK_THROWS_AS(vocab_range_from_global_vocab_size(1601, 0, 4), CollectiveError);
}

}  // namespace kernbench::tp::partition_test
