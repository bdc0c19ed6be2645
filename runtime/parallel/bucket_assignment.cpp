#include "runtime/parallel/bucket_assignment.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kernbench::nn::parallel {

namespace {

struct OpenBucket {
  int kind = 0;
  std::size_t limit = 0;  // its index
  Bytes bytes = 0;
  BucketParameters parameters;
};

OpenBucket& open_bucket(std::vector<OpenBucket>& open, int kind) {
  const auto found = std::ranges::find(open, kind, &OpenBucket::kind);
  if (found != open.end()) return *found;
  open.push_back({kind, 0, 0, {}});
  return open.back();
}

}  // namespace

std::vector<BucketParameters> bucket_assignment(std::span<const BucketItem> items,
                                                std::span<const Bytes> limits,
                                                std::span<const std::size_t> order) {
  std::vector<std::size_t> numbers(order.begin(), order.end());
  if (order.empty()) {
    numbers.resize(items.size());
    std::iota(numbers.begin(), numbers.end(), 0);
  }
  std::vector<BucketParameters> buckets;
  std::vector<OpenBucket> open;  // one of each kind
  for (const std::size_t number : numbers) {
    OpenBucket& bucket = open_bucket(open, items[number].kind);
    bucket.parameters.push_back(number);
    bucket.bytes += items[number].bytes;
    if (bucket.bytes < limits[bucket.limit]) continue;
    buckets.push_back(std::exchange(bucket.parameters, {}));
    bucket.bytes = 0;
    bucket.limit = std::min(bucket.limit + 1, limits.size() - 1);
  }
  for (OpenBucket& bucket : open) {
    if (!bucket.parameters.empty()) buckets.push_back(std::move(bucket.parameters));
  }
  if (order.empty()) {
    std::ranges::sort(buckets, {},
                      [](const BucketParameters& bucket) { return std::ranges::min(bucket); });
  }
  return buckets;
}

}  // namespace kernbench::nn::parallel
