// Why a run takes longer when a resource is faster: simultaneous events may fall in another order,
// or a queue may serve another one first (ADR-0200).

#pragma once

#include <span>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/variants/variants.h"
#include "benches/variants/what_if.h"

namespace kernbench::benches::variants {

constexpr int kOtherOrders = 8;  // seeds 1 to this number (ADR-0100)

// Simulates those of the variants, at most six, in which a resource makes the run slower, and the
// run as it is, in other orders of simultaneous events.
std::vector<Slower> slower_runs(Bench& bench, const BenchInfo& info,
                                std::span<const Variant> variants, const WhatIf& result);

}  // namespace kernbench::benches::variants
