// Algorithms of a program's own, beside those of the library.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "ccl/backend/ahbm_backend.h"
#include "test/ccl/all_reduce_under_test.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::registry_test {
namespace {

// Everyone adds what the participant before it in the grid's row brings: right for two.
void add_neighbour(tl::Context& tl, const ccl::KernelArgs& args) {
  const tl::Tensor own = tl.load(args.tensor, {args.n_elem}, args.dtype);
  tl.send(tl::Direction::east, own);
  tl.store(args.tensor, own + tl.recv(tl::Direction::west, {args.n_elem}, args.dtype));
}

KERNBENCH_REGISTER_ALGORITHM("test_add_neighbour", add_neighbour);

TEST_CASE("a registered algorithm is found by its name, after the library's", "[ccl][registry]") {
  const ccl::Algorithm* found = ccl::find_algorithm("test_add_neighbour");
  REQUIRE(found != nullptr);
  CHECK(found->kernel == add_neighbour);
  CHECK(found->collective == "all_reduce");
  CHECK(found->neighbours == ccl::Neighbours::ring);
  CHECK_FALSE(found->reduces_in_sip);
  CHECK_FALSE(found->suits_auto);
  CHECK(found->closed_form == nullptr);
  std::vector<std::string_view> names;
  for (const ccl::Algorithm* algorithm : ccl::algorithms()) names.push_back(algorithm->name);
  REQUIRE(names.size() > kAllReduceAlgorithms.size() + 1);
  CHECK(std::vector(names.begin(), names.begin() + 5) ==
        std::vector(kAllReduceAlgorithms.begin(), kAllReduceAlgorithms.end()));
  CHECK(names[5] == "hello_send");
  CHECK(std::ranges::count(names, "test_add_neighbour") == 1);
  CHECK(ccl::find_algorithm("unheard-of") == nullptr);
}

TEST_CASE("ccl.yaml picks a registered algorithm, which runs", "[ccl][registry]") {
  for (const std::string_view participants : {"one_pe_per_sip", "shard_holders"}) {
    const auto config = ccl::Config::parse(
        fmt::format("defaults: {{algorithm: mine}}\n"
                    "algorithms: {{mine: {{kernel: test_add_neighbour, participants: {}}}}}",
                    participants));
    AllReduce all_reduce{.topology = round_topology(), .shape = {10}, .config = config};
    if (participants == "one_pe_per_sip") {
      check_exact(all_reduce);
      all_reduce.shape = {1};
      check_exact(all_reduce);
    } else {
      // Between SIPs the ports are called global_east and global_west then.
      CHECK_THAT(error_of<SpawnException>([&] { run(all_reduce); }),
                 test::Says("KB-Q006", "tl.send", "'test_add_neighbour'", "sip0.cube0.pe0",
                            "global_east", "global_west"));
    }
  }
}

TEST_CASE("an algorithm that does not add up inside a SIP refuses tensors that need it",
          "[ccl][registry][errors]") {
  const auto config = ccl::Config::parse("defaults: {algorithm: test_add_neighbour}");
  const AllReduce all_reduce{.topology = round_topology(SipTopology::ring_1d, 2, 1, 2, 1),
                             .dp = {.cube = Shard::column_wise, .pe = Shard::partial},
                             .shape = {10},
                             .config = config};
  CHECK_THAT(error_of<SpawnException>([&] { run(all_reduce); }),
             test::Says("KB-C013", "'x'", "column_wise", "4 PEs", "test_add_neighbour", "row_wise",
                        "on_one_pe"));
}

TEST_CASE("an algorithm that is faster than any can be is told that it is wrong",
          "[ccl][registry][errors]") {
  const auto config =
      ccl::Config::parse("defaults: {algorithm: test_add_neighbour, participants: one_pe_per_sip}");
  const std::string text = error_of<SpawnException>([&] {
    run({.topology = link_topology(SipTopology::ring_1d, 8), .shape = {10}, .config = config});
  });
  CHECK_THAT(text, test::Says("KB-C014", "all_reduce", "40 B", "'test_add_neighbour'", "500.8 ns",
                              "2000 ns"));
  CHECK(is_of_library(*ccl::find_algorithm("ring_allreduce")));
  CHECK_FALSE(is_of_library(*ccl::find_algorithm("test_add_neighbour")));
}

TEST_CASE("a name that is taken is refused", "[ccl][registry][errors]") {
  for (const std::string_view name :
       {"ring_allreduce", "hello_send", "test_add_neighbour", "auto"}) {
    CHECK(error_of<UsageError>([&] {
            ccl::register_algorithm({.name = name, .kernel = add_neighbour});
          }) == fmt::format("[KB-U006] an algorithm named '{}' exists already; give yours another "
                            "name",
                            name));
  }
  CHECK(ccl::find_algorithm("ring_allreduce")->kernel == nullptr);
}

TEST_CASE("an algorithm is more than a kernel if it says so", "[ccl][registry]") {
  static const bool registered =
      ccl::register_algorithm({.name = "test_over_tree",
                               .plan = ccl::find_algorithm("tree_allreduce")->plan,
                               .summary = "the tree by another name",
                               .neighbours = ccl::Neighbours::tree,
                               .reduces_in_sip = true});
  CHECK(registered);
  check_exact({.topology = round_topology(SipTopology::mesh_2d_no_wrap, 3, 1, 2, 1),
               .dp = {.cube = Shard::partial, .pe = Shard::partial},
               .shape = {30},
               .config = ccl::Config::parse("defaults: {algorithm: test_over_tree}")});
}

}  // namespace
}  // namespace kernbench::test::registry_test
