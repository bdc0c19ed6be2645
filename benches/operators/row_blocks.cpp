#include <algorithm>

#include "benches/operators/operator_run.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::operators {

std::int64_t rows_per_block(const TokenShare& share, Bytes bytes_per_row, Bytes fixed) {
  if (bytes_per_row < 1) {
    throw Error("KB-O004", ExitCode::collective_misuse,
                "rows_per_block() with {} bytes of scratch for each row; they are those of all "
                "tensors that a row has at once",
                bytes_per_row);
  }
  if (share.count < 1) return 1;
  constexpr std::int64_t kFewBlocks = 4;
  constexpr Bytes kSmallBlock = 16 * 1024;  // below, a command costs more than it moves
  const auto divide_up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t that_fit =
      std::max<std::int64_t>(1, (share.scratch - fixed) / 2 / bytes_per_row);
  const std::int64_t wanted =
      std::max(divide_up(share.count, kFewBlocks), divide_up(kSmallBlock, bytes_per_row));
  const std::int64_t blocks = divide_up(share.count, std::min(that_fit, wanted));
  return divide_up(share.count, blocks);
}

}  // namespace kernbench::benches::operators
