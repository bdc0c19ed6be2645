// torch.distributed.ReduceOp.

#pragma once

#include <cstdint>
#include <string_view>

#include "sim_engine/base/dtype.h"

namespace kernbench {

// The order is PyTorch's.  avg is the sum divided by the number of ranks (AverageDivisors says
// when it is divided).  band, bor and bxor are of i32, i64 and bool, avg of the other types;
// premul_sum is NCCL's and refused by name.
enum class ReduceOp : std::uint8_t { sum, avg, product, min, max, band, bor, bxor, premul_sum };

// "SUM", "AVG", ...
std::string_view name_of(ReduceOp op);

// The two divisors of an average (ADR-0160): each rank's elements are divided by `before`, and
// their sum by `after`.  The product of both is the number of ranks.
//
// bf16 and f32 are divided after the sum alone, since a sum over ranks stays far from their
// limits.  f16 ends at 65,504: `before` is the smallest power of two that is not below the number
// of ranks, so that no sum of finite elements overflows.  Dividing by it is exact except for
// elements that become smaller than 2^-14, where f16 has fewer bits.  Each addition rounds to the
// type, as for a sum; the division by `after` adds one rounding.
struct AverageDivisors {
  double before = 1;
  double after = 1;

  static AverageDivisors of(DType dtype, int rank_count);
  // True if the type can represent `after` exactly.  Otherwise the sum is divided in f32 and
  // rounded.
  bool is_after_exact_in(DType dtype) const;
};

namespace distributed {
using kernbench::ReduceOp;
}

}  // namespace kernbench
