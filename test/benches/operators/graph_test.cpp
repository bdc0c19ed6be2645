#include "benches/operators/graph.h"

#include <catch2/catch.hpp>

#include "benches/operators/operator_case.h"
#include "sim_engine/base/error.h"
#include "test/support/error_text.h"

namespace kernbench::test::graph_test {
namespace {

using namespace benches::operators;
using Catch::Contains;

const Problem kSmall{{2, 3, 8}, DType::bf16, 0};

struct SomeInputs {
  std::vector<InputSpec> specs = {
      token_input("x", kSmall), parameter("w", kSmall, 8, 0, 1), parameter("v", kSmall, 3, 0, 1),
      expert_parameter("e", kSmall, 4, 2, 0, 1), expert_offsets("offsets", {0, 1, 2, 2, 6})};
  Graph graph;
  Inputs inputs{graph, specs};
};

TEST_CASE("operands are broadcast as in PyTorch, and two types make f32", "[operator_graph]") {
  SomeInputs some;
  const Value x = some.inputs["x"];
  CHECK((x * x).dtype() == DType::bf16);
  CHECK((x * cast(x, DType::f32)).dtype() == DType::f32);
  CHECK((x * some.inputs["w"]).extents() == Extents{Rows::tokens, 8});
  CHECK((some.inputs["w"] * some.inputs.column("v", 2)).extents() == Extents{Rows::one, 8});
  CHECK((mean(x) + some.inputs["w"]).extents() == Extents{Rows::tokens, 8});
  CHECK(mean(x).extents() == Extents{Rows::tokens, 1});
  CHECK(mean(x).node().number == 0.125);
  CHECK(token_sum(x).extents() == Extents{Rows::one, 8});
  CHECK(token_sum(x).dtype() == DType::f32);
  const Value of_token = per_token(some.inputs.column("e", 1), some.inputs["offsets"]);
  CHECK(of_token.extents() == Extents{Rows::tokens, 1});
  CHECK(expert_sums(of_token, some.inputs["offsets"]).extents() == Extents{Rows::experts, 1});
}

TEST_CASE("what is asked for twice is one node, what changes nothing is none", "[operator_graph]") {
  SomeInputs some;
  const Value x = some.inputs["x"];
  const NodeId square = power(x, 2).id();
  CHECK(power(some.inputs["x"], 2).id() == square);
  CHECK(power(x, 3).id() != square);
  CHECK((x * 2).id() != (x * 3).id());
  CHECK((x * 1).id() == x.id());
  CHECK(cast(x, DType::bf16).id() == x.id());
  CHECK(row_sum(mean(x)).id() == mean(x).id());
  CHECK(some.inputs.column("v", 1).id() != some.inputs.column("v", 2).id());
}

TEST_CASE("what is needed follows operands, but not beyond what is given", "[operator_graph]") {
  SomeInputs some;
  const Value x = some.inputs["x"];
  const Value square = power(x, 2);
  const Value m = mean(square);
  const Value other = x * 2;
  const std::array wanted = {m.id()};
  std::vector<bool> given(static_cast<std::size_t>(some.graph.size()), false);
  CHECK(reachable(some.graph, wanted, given) == std::vector{true, true, true, false});
  given[static_cast<std::size_t>(square.id())] = true;
  CHECK(reachable(some.graph, wanted, given) == std::vector{false, true, true, false});
  CHECK(other.id() == 3);
}

TEST_CASE("a graph that is none is refused with what would be right", "[operator_graph][errors]") {
  SomeInputs some;
  const Value x = some.inputs["x"];
  const Value offsets = some.inputs["offsets"];
  CHECK_THROWS_MATCHES(x + some.inputs["v"], Error,
                       Says("KB-O001", "add", "[tokens, 8] bf16", "[1, 3] bf16"));
  CHECK_THROWS_WITH(x * some.inputs.column("e", 0), Contains("[experts, 1] bf16; rows and"));
  CHECK_THROWS_MATCHES(power(x, 4), Error,
                       Says("KB-O001", "power", "[tokens, 8] bf16 to 4", "2 and 3"));
  CHECK_THROWS_WITH(token_sum(x) * 2, Contains("each PE has a summand of it, and no more"));
  CHECK_THROWS_WITH(token_sum(some.inputs["w"]), Contains("rows of tokens are wanted"));
  CHECK_THROWS_WITH(per_token(some.inputs["w"], offsets), Contains("[experts, 1] is wanted"));
  CHECK_THROWS_WITH(per_token(some.inputs.column("e", 0), x), Contains("offsets are [1, experts"));
  CHECK_THROWS_WITH(expert_sums(x, offsets), Contains("[tokens, 1] is wanted"));
  CHECK_THROWS_MATCHES(mean(some.inputs["e"]), Error,
                       Says("KB-O001", "row_sum", "[experts, 2] bf16", "inputs.column"));
  CHECK_THROWS_WITH(sigmoid(some.inputs["e"]), Contains("is used by columns"));
  CHECK_THROWS_WITH(some.inputs["e"] * 2, Contains("is used by columns"));
  CHECK_THROWS_WITH(some.inputs.column("e", 0) * some.inputs["w"],
                    Contains("what experts have is [experts, 1]; per_token() first"));
  CHECK_THROWS_MATCHES(some.inputs["y"], Error, Says("KB-O002", "'y'", "x, w, v, e, offsets"));
  CHECK_THROWS_MATCHES(some.inputs.column("v", 3), Error,
                       Says("KB-O002", "column 3", "'v'", "columns 0 to 2"));
  CHECK_THROWS_AS(some.inputs.column("x", 0), Error);
}

TEST_CASE("forward() returns computed rows of tokens, and an input is used in one way",
          "[operator_graph][errors]") {
  const std::vector<InputSpec> inputs = {token_input("x", kSmall), parameter("w", kSmall, 8, 0, 1)};
  const auto refusal_of = [&](const Forward& forward) { define(inputs, forward, kSmall); };
  const Says outputs("KB-O003", "forward()", "rows of tokens");
  using Values = std::vector<Value>;
  CHECK_THROWS_MATCHES(refusal_of([](const Inputs&) { return Values(); }), Error, outputs);
  CHECK_THROWS_MATCHES(refusal_of([](const Inputs& in) { return Values{in["x"]}; }), Error,
                       outputs);
  CHECK_THROWS_MATCHES(refusal_of([](const Inputs& in) { return Values{in["w"] * 2}; }), Error,
                       outputs);
  CHECK_THROWS_MATCHES(
      refusal_of([](const Inputs& in) { return Values{in["x"] * in["w"] * in.column("w", 0)}; }),
      Error, Says("KB-O003", "'w'", "by columns"));
}

Forward times_expert(std::string_view parameter, std::string_view offsets) {
  return [=](const Inputs& in) {
    return std::vector<Value>{in["x"] * per_token(in.column(parameter, 0), in[offsets])};
  };
}

TEST_CASE("an operator has one set of experts, and one tensor of offsets",
          "[operator_graph][errors]") {
  const InputSpec x = token_input("x", kSmall);
  const InputSpec e = expert_parameter("e", kSmall, 4, 2, 0, 1);
  const InputSpec offsets = expert_offsets("offsets", {0, 1, 2, 2, 6});
  CHECK_NOTHROW(define({x, e, offsets}, times_expert("e", "offsets"), kSmall));
  CHECK_THROWS_MATCHES(define(
                           {x, e, offsets, expert_offsets("others", {0, 0, 0, 0, 6})},
                           [](const Inputs& in) {
                             return std::vector<Value>{in["x"] *
                                                       per_token(in.column("e", 0), in["offsets"]) *
                                                       per_token(in.column("e", 1), in["others"])};
                           },
                           kSmall),
                       Error, Says("KB-O001", "per_token", "one tensor of offsets"));
  CHECK_THROWS_MATCHES(define({x, e, parameter("w", {kSmall.size, DType::f32, 0}, 3, 0, 1)},
                              times_expert("e", "w"), kSmall),
                       Error, Says("KB-O001", "per_token", "[1, 3]", "4", "[1, experts + 1]"));
  CHECK_THROWS_MATCHES(
      define({x, e, expert_offsets("offsets", {0, 1, 6})}, times_expert("e", "offsets"), kSmall),
      Error, Says("KB-O003", "'offsets'", "2 experts", "4", "one set of experts"));
}

TEST_CASE("inputs that are none are refused", "[operator_graph][errors]") {
  const InputSpec x = token_input("x", kSmall);
  const auto refusal_of = [&](std::vector<InputSpec> inputs) {
    define(
        std::move(inputs), [](const Inputs& in) { return std::vector<Value>{in["x"] * 2}; },
        kSmall);
  };
  CHECK_THROWS_MATCHES(refusal_of({x, x}), Error, Says("KB-O003", "'x'", "two of that name"));
  CHECK_THROWS_WITH(refusal_of({x, parameter("", kSmall, 8, 0, 1)}), Contains("inputs have names"));
  CHECK_THROWS_WITH(refusal_of({x, parameter("w", kSmall, 0, 0, 1)}),
                    Contains("input 'w': inputs have columns, at least one"));
  CHECK_THROWS_WITH(
      refusal_of({x, expert_offsets("offsets", {0, 4, 3, 6})}),
      Contains("input 'offsets': an expert's offset is not below that of the one before"));
  InputSpec given = parameter("w", kSmall, 8, 0, 1);
  given.elements = {1, 2, 3};
  CHECK_THROWS_WITH(refusal_of({x, given}),
                    Contains("input 'w': it has 8 elements, and 3 are given"));
  InputSpec drawn = x;
  drawn.elements = {1};
  CHECK_THROWS_WITH(refusal_of({drawn}), Contains("those of tokens are drawn"));
}

}  // namespace
}  // namespace kernbench::test::graph_test
