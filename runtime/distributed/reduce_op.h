// torch.distributed.ReduceOp.

#pragma once

#include <cstdint>
#include <string_view>

namespace kernbench {

// In PyTorch's order.  avg is the sum divided by the number of ranks.  band, bor and bxor are for
// integers, of which there are none here, and premul_sum is NCCL's: they are refused by name.
enum class ReduceOp : std::uint8_t { sum, avg, product, min, max, band, bor, bxor, premul_sum };

// "SUM", "AVG", ...
std::string_view name_of(ReduceOp op);

}  // namespace kernbench
