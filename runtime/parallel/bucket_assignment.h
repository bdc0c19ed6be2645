// Decides which gradients share a bucket: c10d's compute_bucket_assignment_by_size (ADR-0222).

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim_engine/base/units.h"

namespace kernbench::nn::parallel {

// The facts that decide about a parameter's bucket.  Only parameters of one kind share a bucket.
struct BucketItem {
  Bytes bytes = 0;
  int kind = 0;
};

// A bucket's parameters by their numbers, in its order.
using BucketParameters = std::vector<std::size_t>;

// Goes through the items in `order`, or as they are if that is empty.  Each is appended to the open
// bucket of its kind, which is closed when it has at least as many bytes as the limit: so a bucket
// may exceed it by one item.  Every kind has the first limit for its first bucket, the second for
// its second, and the last for all others.  Buckets are in the order in which they were closed,
// open ones last; without an order, in that of their smallest numbers. REQUIRES: there is a limit
std::vector<BucketParameters> bucket_assignment(std::span<const BucketItem> items,
                                                std::span<const Bytes> limits,
                                                std::span<const std::size_t> order = {});

}  // namespace kernbench::nn::parallel
