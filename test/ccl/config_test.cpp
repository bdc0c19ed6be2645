// ccl.yaml: what is in force, and what is refused.

#include "ccl/core/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string_view>

#include "ccl/core/config_rules.h"
#include "sim_engine/config/yaml_document.h"
#include "test/ccl/all_reduce_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::config_test {
namespace {

using ccl::Config;
using ccl::Neighbours;
using ccl::Participants;
using ccl::Root;

std::string error_in(std::string_view text) {
  return config_error_of([&] { Config::parse(text); });
}

TEST_CASE("what nobody says has a built-in value", "[ccl][config]") {
  for (const Config& config : {Config(), Config::parse("{}"), Config::parse("defaults: {}"),
                               Config::parse("algorithms: {}")}) {
    CHECK(config.algorithm_name() == "intercube_allreduce");
    CHECK(config.algorithm().name == "intercube_allreduce");
    CHECK_FALSE(config.is_auto());
    CHECK(config.ipcq().buffer_kind == sim::BufferKind::tcm);
    CHECK(config.ipcq().depth == 4);
    CHECK(config.ipcq().slot_bytes == 16384);
    CHECK(config.eager_bytes() == 1024);
    CHECK(config.n_elem() == std::vector<std::int64_t>{1024, 4096, 16384, 49152});
    CHECK_FALSE(config.world_size());
    CHECK(config.participants() == Participants::shard_holders);
    CHECK(config.root() == Root::center);
    CHECK(config.neighbours() == std::vector{Neighbours::grid});
  }
}

TEST_CASE("every key of the defaults is in force", "[ccl][config]") {
  const Config config = Config::parse(R"(
defaults:
  algorithm: tree_allreduce
  buffer_kind: hbm
  depth: 3
  slot: 2 KiB
  n_elem: 7
  participants: one_pe_per_sip
  root: corner
  neighbours: ring
)");
  CHECK(config.algorithm().name == "tree_allreduce");
  CHECK(config.ipcq().buffer_kind == sim::BufferKind::hbm);
  CHECK(config.ipcq().depth == 3);
  CHECK(config.ipcq().slot_bytes == 2048);
  CHECK(config.n_elem() == std::vector<std::int64_t>{7});
  const auto sizes = [](std::string_view text) {
    return Config::parse(fmt::format("defaults: {{n_elem: {}}}", text)).n_elem();
  };
  CHECK(sizes("[0, 3]") == std::vector<std::int64_t>{0, 3});
  CHECK_THROWS_AS(sizes("-1"), ConfigError);
  CHECK(config.participants() == Participants::one_pe_per_sip);
  CHECK(config.root() == Root::corner);
  CHECK(config.neighbours() == std::vector{Neighbours::ring});
  CHECK(Config::parse("defaults: {world_size: 6}").world_size() == 6);
}

TEST_CASE("an algorithm's entry comes before the defaults, key by key, and others' do not matter",
          "[ccl][config]") {
  const Config config = Config::parse(R"(
defaults: {algorithm: mine, depth: 2, slot: 64 B, world_size: 4, root: corner}
algorithms:
  mine: {kernel: ring_allreduce, depth: 8, world_size: 6}
  ring_allreduce: {slot: 128 B}
)");
  CHECK(config.algorithm_name() == "mine");
  CHECK(config.algorithm().name == "ring_allreduce");
  CHECK(config.ipcq().depth == 8);
  CHECK(config.ipcq().slot_bytes == 64);
  CHECK(config.world_size() == 6);
  CHECK(config.root() == Root::corner);
  const Config plain = config.with_algorithm("ring_allreduce");
  CHECK(plain.ipcq().depth == 2);
  CHECK(plain.ipcq().slot_bytes == 128);
  CHECK(plain.world_size() == 4);
  CHECK(config.with_algorithm("tree_allreduce").ipcq().slot_bytes == 64);
}

TEST_CASE("an entry without a kernel names one, and one with a kernel has any name",
          "[ccl][config]") {
  const Config config = Config::parse(
      "algorithms: {tree_allreduce: {depth: 1}, of_pes: {kernel: tree_allreduce, world_size: 2}}");
  CHECK(config.algorithm().name == "intercube_allreduce");
  CHECK(config.with_algorithm("of_pes").algorithm().name == "tree_allreduce");
  CHECK(config.with_algorithm("of_pes").algorithm_name() == "of_pes");
  CHECK(config.with_algorithm("of_pes").neighbours() == std::vector{Neighbours::tree});
}

TEST_CASE("auto chooses among the library's algorithms, and joins participants for each of them",
          "[ccl][config]") {
  for (const std::string_view neighbours : {"", ", neighbours: ring"}) {
    const Config config =
        Config::parse(fmt::format("defaults: {{algorithm: auto, depth: 2{}}}", neighbours));
    CHECK(config.is_auto());
    CHECK(config.ipcq().depth == 2);
    CHECK(config.neighbours() == std::vector{Neighbours::grid, Neighbours::ring, Neighbours::tree});
    std::vector<std::string_view> names;
    for (const ccl::Algorithm* candidate : config.candidates()) names.push_back(candidate->name);
    CHECK(names == std::vector(kAllReduceAlgorithms.begin(), kAllReduceAlgorithms.end()));
  }
}

TEST_CASE("rules choose by collective, size and ranks; the first that fits decides",
          "[ccl][config][rules]") {
  using distributed::CollectiveKind;
  const Config config = Config::parse(R"(
rules:
  - all_reduce: {algorithm: tree_allreduce, up_to: 4 KiB}
  - all_reduce: {algorithm: ring_allreduce, ranks: 2}
  - all_gather: {algorithm: ring, above: 1 KiB}
  - broadcast: {algorithm: auto}
)");
  const auto chosen = [&](CollectiveKind kind, int ranks, Bytes bytes) -> std::string_view {
    const ccl::Rule* rule = config.rule_for(kind, ranks, bytes);
    if (rule == nullptr) return "none";
    return rule->algorithm == nullptr ? "auto" : rule->algorithm->name;
  };
  CHECK(chosen(CollectiveKind::all_reduce, 2, 4096) == "tree_allreduce");
  CHECK(chosen(CollectiveKind::all_reduce, 2, 4097) == "ring_allreduce");
  CHECK(chosen(CollectiveKind::all_reduce, 3, 4097) == "none");
  CHECK(chosen(CollectiveKind::all_gather, 3, 1024) == "none");
  CHECK(chosen(CollectiveKind::all_gather, 3, 1025) == "ring");
  CHECK(chosen(CollectiveKind::broadcast, 3, 0) == "auto");
  CHECK(config.with_algorithm("mesh_allreduce").rule_for(CollectiveKind::all_reduce, 2, 1) ==
        nullptr);
}

TEST_CASE("rules choose by the group's description", "[ccl][config][rules]") {
  using distributed::CollectiveKind;
  const Config config = Config::parse(R"(
rules:
  - all_gather: {algorithm: ring, group: EXPERTS}
  - all_gather: {algorithm: torus, group: default_pg}
)");
  const auto chosen = [](const Config& of, CollectiveKind kind,
                         std::string_view group) -> std::string_view {
    const ccl::Rule* rule = of.rule_for(kind, 4, 4096, group);
    return rule == nullptr ? "none" : rule->algorithm->name;
  };
  CHECK(chosen(config, CollectiveKind::all_gather, "EXPERTS") == "ring");
  CHECK(chosen(config, CollectiveKind::all_gather, "default_pg") == "torus");
  CHECK(chosen(config, CollectiveKind::all_gather, "OTHERS") == "none");
  const Config named = config.with_algorithm(
      "EXPERTS:tree_allreduce+all_gather@EXPERTS:torus+broadcast:half_chains");
  CHECK(chosen(named, CollectiveKind::all_reduce, "EXPERTS") == "tree_allreduce");
  CHECK(chosen(named, CollectiveKind::all_reduce, "OTHERS") == "none");
  CHECK(chosen(named, CollectiveKind::all_gather, "EXPERTS") == "torus");
  CHECK(chosen(named, CollectiveKind::broadcast, "OTHERS") == "half_chains");
  CHECK(named.algorithm_name() == "intercube_allreduce");
}

TEST_CASE("a list of algorithms names ones that there are", "[ccl][config][rules][errors]") {
  const auto error_with = [](std::string_view list) {
    return error_of<UsageError>([&] { Config().with_algorithm(list); });
  };
  CHECK_THAT(error_with("all_gather:rign"), test::Says("KB-U003", "'rign'", "all_gather"));
  CHECK_THAT(error_with("EXPERTS:rign"),
             Catch::Contains("[KB-U003] unknown algorithm 'rign' for the group 'EXPERTS'"));
  CHECK_THAT(error_with("tree_allreduce,rign"), Catch::Contains("[KB-U003]"));
}

TEST_CASE("a rule for an algorithm that does not serve the collective is refused",
          "[ccl][config][rules][errors]") {
  const std::string text = config_error_of([] {
    Config::parse(
        "rules:\n"
        "  - all_gather: {algorithm: ring_allreduce}\n"
        "  - reduce: {algorithm: chain, above: 8 KiB, up_to: 4 KiB}\n"
        "  - barrier: {algorithm: chain}\n");
  });
  CHECK_THAT(text,
             test::Says("KB-Y040", "0", "all_gather.algorithm", "all_gather", "'ring_allreduce'"));
  CHECK_THAT(text, Catch::Contains("[KB-Y020] rules[1].reduce.up_to: must be more than 'above'"));
  CHECK_THAT(text, Catch::Contains("[KB-Y010]"));
}

TEST_CASE("what is set by a program comes before the file", "[ccl][config]") {
  const Config config = Config::parse(R"(
defaults: {algorithm: mine, buffer_kind: hbm, root: corner}
algorithms: {mine: {kernel: ring_allreduce, buffer_kind: sram, world_size: 4, root: corner}}
)");
  CHECK(config.with_buffer_kind(sim::BufferKind::tcm).ipcq().buffer_kind == sim::BufferKind::tcm);
  CHECK(config.with_depth(3).ipcq().depth == 3);
  CHECK(config.with_world_size(8).world_size() == 8);
  CHECK(config.with_root(Root::center).root() == Root::center);
  const Config all =
      config.with_root(Root::center).with_world_size(2).with_algorithm("tree_allreduce");
  CHECK(all.root() == Root::center);
  CHECK(all.world_size() == 2);
  CHECK(all.algorithm().name == "tree_allreduce");
  CHECK(all.ipcq().buffer_kind == sim::BufferKind::hbm);
  CHECK(config.with_algorithm("auto").is_auto());
}

TEST_CASE("an entry of a name that was meant for another is refused, one of its own is not",
          "[ccl][config][errors]") {
  CHECK_THAT(
      error_in("algorithms:\n  ring_alreduce: {kernel: ring_allreduce, depth: 8}"),
      test::Says("KB-Y040", "algorithms.ring_alreduce", "'ring_alreduce'", "'ring_allreduce'"));
  const Config config = Config::parse(
      "algorithms: {mesh_allreduce_4: {kernel: mesh_allreduce}, ring_allreduce: {depth: 2}}");
  CHECK(config.unused_entries() == std::vector<std::string>{"mesh_allreduce_4"});
  CHECK(config.with_algorithm("mesh_allreduce_4").unused_entries().empty());
}

TEST_CASE("a value that is none of an enumeration's is refused", "[ccl][config][errors]") {
  CHECK_THAT(test::config_error_of([] { Config().with_depth(0); }),
             test::Says("KB-Y020", "depth: 0 not in [1, 1024]"));
  CHECK_THAT(test::config_error_of([] { Config().with_buffer_kind(sim::BufferKind{7}); }),
             test::Says("KB-Y020", "buffer_kind", "7"));
  CHECK_THAT(test::config_error_of([] { Config().with_root(ccl::Root{9}); }),
             test::Says("KB-Y020", "9", "first_corner"));
  CHECK_THAT(test::config_error_of([] { Config().with_world_size(-1); }),
             test::Says("KB-Y020", "world_size", "-1", "1", "1048576"));
}

TEST_CASE("an algorithm that is not there is refused with the nearest, or with all that are",
          "[ccl][config][errors]") {
  CHECK_THAT(error_in("defaults: {algorithm: ring_alreduce}"),
             test::Says("KB-Y040", "defaults.algorithm", "'ring_alreduce'", "'ring_allreduce'"));
  CHECK_THAT(error_in("defaults: {algorithm: autto}"),
             test::Says("KB-Y040", "defaults.algorithm", "'autto'", "'auto'"));
  const std::string text =
      error_in("defaults: {algorithm: unheard-of}\nalgorithms: {mine: {kernel: tree_allreduce}}");
  CHECK_THAT(text, Catch::StartsWith("ccl.yaml:1:23: [KB-Y040] defaults.algorithm: unknown "
                                     "algorithm 'unheard-of'; there are: intercube_allreduce, "
                                     "ring_allreduce, bidirectional_ring_allreduce, "
                                     "mesh_allreduce, tree_allreduce, hello_send, ") &&
                       Catch::EndsWith("mine, auto"));
  const std::string kernel = error_in("algorithms:\n  mine: {kernel: unheard-of}");
  CHECK_THAT(kernel,
             test::Says("KB-Y040", "algorithms.mine", "'unheard-of'", "intercube_allreduce"));
  CHECK_THAT(kernel, !Catch::Contains("auto"));  // is no kernel
  for (const std::string_view entry : {"{depth: 2}", "{kernel: ring_allreduce}"}) {
    CHECK_THAT(error_in(fmt::format("algorithms: {{auto: {}}}", entry)),
               test::Says("KB-Y040", "algorithms.auto", "'auto'"));
  }
  CHECK_THAT(error_of<UsageError>([] { Config().with_algorithm("mesh_alreduce"); }),
             test::Says("KB-U003", "'mesh_alreduce'", "'mesh_allreduce'"));
}

TEST_CASE("world_size and participants exclude each other, also where one is inherited",
          "[ccl][config][errors]") {
  const auto refuses = [](std::string_view place, std::string_view key) {
    return test::Says("KB-Y042", place, key, "world_size", "participants", "keep one");
  };
  CHECK_THAT(error_in("defaults: {world_size: 4, participants: one_pe_per_sip}"),
             refuses("ccl.yaml:1:41", "defaults.participants"));
  CHECK_THAT(error_in("algorithms:\n"
                      "  tree_allreduce: {world_size: 4, participants: shard_holders}"),
             refuses("ccl.yaml:2:49", "algorithms.tree_allreduce.participants"));
  CHECK_THAT(error_in("defaults: {world_size: 4}\n"
                      "algorithms: {tree_allreduce: {participants: one_pe_per_sip}}"),
             refuses("ccl.yaml:2:45", "algorithms.tree_allreduce.participants"));
  CHECK_THAT(error_in("algorithms: {tree_allreduce: {world_size: 4}}\n"
                      "defaults: {participants: one_pe_per_sip}"),
             refuses("ccl.yaml:1:43", "algorithms.tree_allreduce.world_size"));
  CHECK(error_in("defaults: {world_size: 4}\nalgorithms: {tree_allreduce: {depth: 4}}") ==
        "no error");
}

TEST_CASE("a key of the top level is told of in the defaults", "[ccl][config][errors]") {
  CHECK_THAT(error_in("defaults:\n  rules: [{all_reduce: {algorithm: auto}}]"),
             test::Says("KB-Y010", "ccl.yaml:2:10", "defaults.rules", "top level"));
  CHECK_THAT(error_in("defaults: {protocols: []}"),
             test::Says("KB-Y010", "defaults.protocols", "top level"));
  CHECK_THAT(error_in("defaults: {protocols: []}"), !Catch::Contains("unknown key"));
}

TEST_CASE("an entry that a changed default contradicts is refused only where it is chosen",
          "[ccl][config][errors]") {
  const auto changed = [](const YamlChange& change) {
    YamlDocument document = YamlDocument::parse(
        "algorithms:\n  four: {kernel: mesh_allreduce, world_size: 4}\n"
        "  queues: {kernel: ring_allreduce, depth: 2}\n",
        "ccl.yaml");
    document.change(change);
    document.change(
        {.path = "defaults.participants", .items = {"one_pe_per_sip"}, .is_list = false});
    return Config::read(document);
  };
  const Config config = changed({.path = "defaults.depth", .items = {"3"}, .is_list = false});
  CHECK(config.participants() == Participants::one_pe_per_sip);
  CHECK(config.with_algorithm("queues").participants() == Participants::one_pe_per_sip);
  CHECK_THAT(error_of<ConfigError>([&] { config.with_algorithm("four"); }),
             test::Says("KB-Y042", "algorithms.four", "world_size", "participants", "keep one"));
  CHECK_THAT(error_of<ConfigError>([&] {
               changed({.path = "defaults.algorithm", .items = {"four"}, .is_list = false});
             }),
             test::Says("KB-Y042", "ccl.yaml:2:9", "algorithms.four", "keep one"));
}

TEST_CASE("rules of a file that have decided nothing are described with their places",
          "[ccl][config]") {
  const Config config = Config::parse(
      "rules:\n"
      "  - all_reduce: {algorithm: tree_allreduce, group: NOPE, up_to: 4 KiB}\n"
      "  - all_gather: {algorithm: auto, ranks: 7, above: 1 KiB}\n"
      "  - reduce: {algorithm: chain, above: 0 B}\n");
  const ccl::Rule* const decides =
      config.rule_for(distributed::CollectiveKind::all_gather, 7, 2048);
  CHECK(config.number_of_rule(decides) == 2);
  CHECK(config.number_of_rule(nullptr) == 0);
  CHECK(config.unused_rules({1, 2}) ==
        std::vector<std::string>{"the rule of ccl.yaml:4:25 (reduce by chain, above 0 B)"});
  CHECK(config.unused_rules({2, 3}) ==
        std::vector<std::string>{"the rule of ccl.yaml:2:29 (all_reduce by tree_allreduce, "
                                 "up to 4096 B, group NOPE)"});
  CHECK(config.unused_rules({1, 3}) ==
        std::vector<std::string>{"the rule of ccl.yaml:3:29 (all_gather by auto, above 1024 B, "
                                 "ranks 7)"});
  CHECK(config.unused_rules({1, 2, 3}).empty());
}

TEST_CASE("values that cannot be are refused with those that can, all at once",
          "[ccl][config][errors]") {
  const std::string all =
      error_in("defaults: {world_size: 0, depth: 0, slot: 3 B, root: middle, neighbours: star}");
  CHECK(std::ranges::count(all, '\n') == 4);
  CHECK_THAT(all, test::Says("KB-Y020", "ccl.yaml:1:24", "defaults.world_size", "1048576"));
  CHECK_THAT(all, test::Says("KB-Y020", "ccl.yaml:1:34", "defaults.depth", "1024"));
  CHECK_THAT(all, test::Says("KB-Y020", "ccl.yaml:1:43", "defaults.slot", "3 B", "4 B", "1 GiB"));
  CHECK_THAT(all, test::Says("KB-Y020", "ccl.yaml:1:54", "defaults.root", "'middle'", "center",
                             "corner", "first_corner"));
  CHECK_THAT(all, test::Says("KB-Y020", "ccl.yaml:1:74", "defaults.neighbours", "'star'", "grid",
                             "ring", "tree"));
  CHECK_THAT(
      error_in("defaults: {participants: all}"),
      test::Says("KB-Y020", "defaults.participants", "'all'", "shard_holders", "one_pe_per_sip"));
  CHECK_THAT(error_in("defaults: {worldsize: 4}"),
             test::Says("KB-Y010", "'worldsize'", "'world_size'"));
}

TEST_CASE("queues wait as ccl.yaml says", "[ccl][config][wait]") {
  const auto queue = [](std::string_view text, std::string_view algorithm = "ring_allreduce") {
    const sim::IpcqParams params = Config::parse(text).with_algorithm(algorithm).ipcq();
    return std::pair{params.wait, params.poll_interval};
  };
  using sim::WaitPolicy;
  CHECK(queue("{}").first == WaitPolicy::sleep);
  CHECK(queue("defaults: {wait: sleep}").first == WaitPolicy::sleep);
  CHECK(queue("defaults: {wait: poll}") == std::pair{WaitPolicy::poll, Time{100'000}});
  CHECK(queue("defaults: {wait: poll, poll_interval: 50 ns}") ==
        std::pair{WaitPolicy::poll, Time{50'000}});
  const std::string_view both = R"(
defaults: {wait: poll, poll_interval: 50 ns}
algorithms: {ring_allreduce: {poll_interval: 20 ns}, tree_allreduce: {wait: sleep}}
)";
  CHECK(queue(both) == std::pair{WaitPolicy::poll, Time{20'000}});
  CHECK(queue(both, "mesh_allreduce") == std::pair{WaitPolicy::poll, Time{50'000}});
  CHECK(queue(both, "tree_allreduce").first == WaitPolicy::sleep);
}

TEST_CASE("an interval of looks needs a queue that looks", "[ccl][config][wait][error]") {
  const std::string text = "has no meaning without 'wait: poll'";
  for (const std::string_view wrong :
       {"defaults: {poll_interval: 50 ns}", "defaults: {wait: sleep, poll_interval: 50 ns}",
        "algorithms: {ring_allreduce: {poll_interval: 50 ns}}",
        "defaults: {wait: poll}\nalgorithms: {ring_allreduce: {wait: sleep, poll_interval: 1 "
        "ns}}"}) {
    CAPTURE(wrong);
    CHECK_THAT(error_in(wrong), Catch::Contains("KB-Y043") && Catch::Contains(text));
  }
  CHECK_THAT(error_in("defaults: {wait: poll, poll_interval: 0 ns}"),
             Catch::Contains("KB-Y020") && Catch::Contains("must be more than 0 ns"));
  CHECK_THAT(error_in("defaults: {wait: poll, poll_interval: 50}"), Catch::Contains("KB-Y011"));
  CHECK_THAT(error_in("defaults: {wait: spin}"), Catch::Contains("KB-Y020"));
}

}  // namespace
}  // namespace kernbench::test::config_test
