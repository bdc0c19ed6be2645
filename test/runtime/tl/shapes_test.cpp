// New values, and values in other shapes.

#include <catch2/catch.hpp>
#include <limits>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/components/processing_element.h"
#include "test/runtime/tl/tl_under_test.h"

namespace kernbench::test::shapes_test {
namespace {

constexpr DType f32 = DType::f32;

TEST_CASE("full, zeros and arange make new values", "[tl][shape]") {
  TlUnderTest k;
  CHECK(k.result([](tl::Context& tl) {
    return tl.full({2, 2}, -1.5, DType::bf16);
  }) == Elements(4, -1.5));
  CHECK(k.dtype == DType::bf16);
  CHECK(k.shape == Shape{2, 2});
  CHECK(k.result([](tl::Context& tl) { return tl.zeros({3}, f32); }) == Elements(3, 0));
  CHECK(k.result([](tl::Context& tl) { return tl.arange(-1, 4); }) == Elements{-1, 0, 1, 2, 3});
  CHECK(k.result([](tl::Context& tl) { return tl.arange(2045, 2049, DType::f16); }) ==
        Elements{2045, 2046, 2047, 2048});
  CHECK(k.result([](tl::Context& tl) { return tl.arange(7, 7); }).empty());
  CHECK(k.result([](tl::Context& tl) { return tl.full({}, 3, f32); }) == Elements{3});
}

TEST_CASE("a mask made of a ramp chooses by place", "[tl][shape]") {
  TlUnderTest k;
  CHECK(k.result([](tl::Context& tl) {
    const tl::Tensor columns = tl.arange(0, 4);
    const tl::Tensor rows = tl.reshape(tl.arange(0, 3), {3, 1});
    return tl.where(columns <= rows, 1, 0) + tl.sum(columns < 2);
  }) == Elements{3, 2, 2, 2, 3, 3, 2, 2, 3, 3, 3, 2});
}

TEST_CASE("a value in another shape is the same memory, and costs nothing", "[tl][shape][timing]") {
  TlUnderTest k;
  Bytes before = 0;
  Bytes after = 0;
  const auto in_use = [&] {
    return simulation_of(k.torch).machine().pe({0, 0, 0}).scratch_in_use();
  };
  const Time took = k.time_of([](tl::Context& tl) { return tl.arange(0, 12); },
                              [&](tl::Context& tl, const tl::Tensor& x) {
                                before = in_use();
                                const tl::Tensor other = tl.reshape(x, {3, 4});
                                tl.reshape(tl.reshape(other, {12}), {2, 2, 3});
                                after = in_use();
                              });
  CHECK(took == Time{0});
  CHECK(before == 48);
  CHECK(after == 48);
}

TEST_CASE("what is written or moved takes its time on PE_MATH", "[tl][shape][timing]") {
  TlUnderTest k;  // moving takes 6 ns per element
  const auto time_of = [&](auto op) {
    return k.time_of([](tl::Context& tl) { return tl.zeros({5, 2}, f32); }, op);
  };
  CHECK(time_of([](auto& tl, auto&) { tl.full({20}, 3, f32); }) == Time{120'000});
  CHECK(time_of([](auto& tl, auto&) { tl.arange(0, 30); }) == Time{180'000});
  CHECK(time_of([](auto& tl, auto& x) { tl.trans(x); }) == Time{60'000});
}

TEST_CASE("cdiv rounds up", "[tl][shape]") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK(tl::cdiv(0, 4) == 0);
  CHECK(tl::cdiv(1, 4) == 1);
  CHECK(tl::cdiv(4, 4) == 1);
  CHECK(tl::cdiv(5, 4) == 2);
  CHECK(tl::cdiv(-5, 4) == -1);
  CHECK(tl::cdiv(-4, 4) == -1);
  CHECK(tl::cdiv(kMost, kMost) == 1);
  CHECK(tl::cdiv(kMost, 2) == kMost / 2 + 1);
  TlUnderTest k;
  k.run([](tl::Context& tl) { CHECK(tl.cdiv(5, 4) == 2); });
  CHECK_THROWS_MATCHES(tl::cdiv(5, 0), DeviceError, Says("KB-K022", "5 / 0"));
  CHECK_THROWS_MATCHES(tl::cdiv(5, -1), DeviceError, Says("KB-K022", "5 / -1"));
  CHECK_THAT(k.error([](tl::Context& tl) { tl.cdiv(5, 0); }),
             Says("KB-K022", "tl.cdiv in kernel 'k' on sip0.cube0.pe0", "5 / 0"));
}

TEST_CASE("shapes that do not fit are refused", "[tl][shape][error]") {
  TlUnderTest k;
  const std::string where = " in kernel 'k' on sip0.cube0.pe0: ";
  CHECK_THAT(k.error([](tl::Context& tl) {
    tl.reshape(tl.zeros({2, 3}, f32), {4});
  }),
             Says("KB-K022", "tl.reshape", where, "[2, 3] f32", "6", "[4]"));
  CHECK_THAT(k.error([](tl::Context& tl) { tl.trans(tl.zeros({6}, f32)); }),
             Says("KB-K022", "tl.trans", where, "[6] f32"));
  CHECK_THAT(k.error([](tl::Context& tl) {
    tl.trans(tl.zeros({1, 2, 3}, f32));
  }),
             Says("KB-K022", "tl.trans", where, "[1, 2, 3] f32"));
  CHECK_THAT(k.error([](tl::Context& tl) { tl.arange(4, 3); }),
             Says("KB-K022", "tl.arange", where, "4", "3"));
}

TEST_CASE("a ramp of numbers that the type does not have is refused", "[tl][shape][error]") {
  TlUnderTest k;
  const auto error = [&](std::int64_t start, std::int64_t end, DType dtype) {
    return k.error([=](tl::Context& tl) { tl.arange(start, end, dtype); });
  };
  CHECK(error(0, 2049, DType::f16) == "no error");
  CHECK_THAT(error(0, 2050, DType::f16), Says("KB-K022", "tl.arange", "0", "2050", "f16", "2048"));
  CHECK_THAT(error(-2049, 0, DType::f16), Says("KB-K022", "-2049", "-2048 to 2048"));
  CHECK(error(250, 257, DType::bf16) == "no error");
  CHECK_THAT(error(250, 258, DType::bf16), Says("KB-K022", "258", "bf16", "-256 to 256"));
  CHECK_THAT(error(1 << 24, (1 << 24) + 2, f32), Says("KB-K022", "16777218", "f32", "16777216"));
  CHECK(error(1 << 24, (1 << 24) + 1, f32) == "no error");
}

TEST_CASE("a number is rounded once, from double to the type", "[tl][shape]") {
  TlUnderTest k;
  const auto full = [&](double number, DType dtype) {
    return k.result([&](tl::Context& tl) { return tl.full({1}, number, dtype); }).front();
  };
  // Just above a tie between two neighbours: in f32 it would be the tie, and go to the even one.
  CHECK(full(1 + 0x1p-11 + 0x1p-30, DType::f16) == 1 + 0x1p-10F);
  CHECK(full(-1 - 0x1p-11 - 0x1p-30, DType::f16) == -1 - 0x1p-10F);
  CHECK(full(1 + 3 * 0x1p-11 - 0x1p-30, DType::f16) == 1 + 0x1p-10F);  // just below
  CHECK(full(1 + 0x1p-11, DType::f16) == 1);
  CHECK(full(1 + 0x1p-8 + 0x1p-40, DType::bf16) == 1 + 0x1p-7F);
  CHECK(full(0x1p-25 + 0x1p-60, DType::f16) == 0x1p-24F);  // the least subnormal
  CHECK(full(65520 - 0x1p-20, DType::f16) == 65504);
  CHECK(full(0.1, f32) == 0.1F);
  CHECK(k.result([](tl::Context& tl) {
    return tl.zeros({1}, DType::f16) + (1 + 0x1p-11 + 0x1p-30);
  }) == Elements{1 + 0x1p-10F});
}

}  // namespace
}  // namespace kernbench::test::shapes_test
