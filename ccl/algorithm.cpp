#include "ccl/algorithm.h"

#include <algorithm>
#include <array>

#include "ccl/algorithms/intercube_allreduce.h"

namespace kernbench::ccl {

std::span<const Algorithm> algorithms() {
  static constexpr std::array kAlgorithms = {
      Algorithm{"intercube_allreduce", "all_reduce",
                "reduce to the centre cube, exchange among SIPs, broadcast back",
                intercube_allreduce},
  };
  return kAlgorithms;
}

const Algorithm* find_algorithm(std::string_view name) {
  const auto all = algorithms();
  const auto found = std::ranges::find(all, name, &Algorithm::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace kernbench::ccl
