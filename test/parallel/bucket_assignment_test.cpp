#include "runtime/parallel/bucket_assignment.h"

#include <array>
#include <catch2/catch.hpp>
#include <vector>

namespace kernbench::test::bucket_assignment_test {
namespace {

using nn::parallel::bucket_assignment;
using nn::parallel::BucketItem;
using Buckets = std::vector<nn::parallel::BucketParameters>;

constexpr Bytes kKiB = 1024;
constexpr Bytes kMiB = 1024 * kKiB;
constexpr std::array kDefaults = {1 * kMiB, 25 * kMiB};

std::vector<BucketItem> of_kib(const std::vector<Bytes>& sizes) {
  std::vector<BucketItem> items;
  for (const Bytes size : sizes) items.push_back({size * kKiB, 0});
  return items;
}

// The expected buckets are those of torch 1.13.1.
TEST_CASE("a bucket is closed when it has reached its limit, as in torch", "[ddp]") {
  CHECK(bucket_assignment(of_kib({400, 400, 400, 400, 10, 20}), kDefaults) ==
        Buckets{{0, 1, 2}, {3, 4, 5}});
  CHECK(bucket_assignment(of_kib({512, 512, 512}), kDefaults) == Buckets{{0, 1}, {2}});
  CHECK(bucket_assignment(of_kib({30 * 1024, 1024, 1024, 1024}), kDefaults) ==
        Buckets{{0}, {1, 2, 3}});
}

TEST_CASE("every kind of parameter has buckets and limits of its own", "[ddp]") {
  std::vector<BucketItem> items;
  for (const int kind : {0, 0, 1, 1, 0, 0, 0, 1}) items.push_back({kKiB, kind});
  CHECK(bucket_assignment(items, std::array{1 * kKiB, 3 * kKiB}) ==
        Buckets{{0}, {1, 4, 5}, {2}, {3, 7}, {6}});
}

TEST_CASE("with an order, buckets are in the order in which they are closed", "[ddp]") {
  const std::array<std::size_t, 4> order = {3, 2, 1, 0};
  CHECK(bucket_assignment(of_kib({1, 2, 3, 4}), std::array{4 * kKiB, 5 * kKiB}, order) ==
        Buckets{{3}, {2, 1}, {0}});
  CHECK(bucket_assignment(of_kib({1, 1}), std::array{Bytes{0}}) == Buckets{{0}, {1}});
}

}  // namespace
}  // namespace kernbench::test::bucket_assignment_test
