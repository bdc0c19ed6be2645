// Sentences that say what a plan has more or less than another, and why others are not among the
// best.

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "benches/plan/candidates.h"

namespace kernbench::benches::plan {

// The reasons that a plan is not timed.
inline constexpr std::string_view kKeepsMore = "less is computed again, and fits";
inline constexpr std::string_view kCutsLess = "fewer micro-batches take it, and fit";
inline constexpr std::string_view kIsSlower =
    "slower, even if larger caps hid all that data parallel ranks send, and idled never";

// "12.3 MiB"
std::string show_bytes(double bytes);

// Says how much longer the second plan takes than the first: its step, and of that rank 0's
// kernels, exposed communication and idle time, which add up; and how much more its bubble and its
// peak have.
std::string compare_first_two(const Plan& first, const Plan& second);

// Says how many do not fit, and the fastest of them, if it were faster than all that do.
// REQUIRES: plans are in order, and the first one fits
std::string describe_refused(std::span<const Plan> plans);

// Says how many are not timed, and why; empty: all are.
std::string describe_needless(std::span<const Plan> plans);

// Says how far the steps of plans that are measured are from what their layers gave; empty: none
// is.
std::string describe_deviation(std::span<const Plan> plans);

}  // namespace kernbench::benches::plan
