// Latin hypercubes: points that cover each of several ranges evenly (M. D. McKay, R. J. Beckman and
// W. J. Conover, 1979).

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kernbench::benches::variants {

// `count` points, each with a coordinate in [0, 1) for every dimension.  Of `count` equal parts of
// a dimension each has one point, drawn in it.  The numbers are Philox's, so that the same seed
// gives the same points with any compiler and on any host.
std::vector<std::vector<double>> latin_hypercube(std::size_t count, std::size_t dimension_count,
                                                 std::uint64_t seed);

}  // namespace kernbench::benches::variants
