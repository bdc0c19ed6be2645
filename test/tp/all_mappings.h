// The mappings of tp/mappings.h as functions of a tensor, over the tensor parallel group.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tp/mappings.h"
#include "tp/parallel_state.h"

namespace kernbench::test {

struct Mapping {
  std::string name;
  std::function<Tensor(RuntimeContext&, const Tensor&)> map;
};

inline std::vector<Mapping> all_mappings() {
  using namespace tp;  // NOLINT(google-build-using-namespace)
  const auto over_group = [](auto function) {
    return [=](RuntimeContext& torch, const Tensor& x) { return function(torch, x, std::nullopt); };
  };
  const auto gather_rows = [](bool is_summand) {
    return [=](RuntimeContext& torch, const Tensor& x) {
      return gather_from_sequence_parallel_region(torch, x, is_summand);
    };
  };
  const auto exchange = [](RuntimeContext& torch, const Tensor& x) {
    return all_to_all(torch, get_tensor_model_parallel_group(torch), x);
  };
  return {
      {"copy_to", over_group(copy_to_tensor_model_parallel_region)},
      {"reduce_from", over_group(reduce_from_tensor_model_parallel_region)},
      {"scatter_to", over_group(scatter_to_tensor_model_parallel_region)},
      {"gather_from", over_group(gather_from_tensor_model_parallel_region)},
      {"scatter rows", over_group(scatter_to_sequence_parallel_region)},
      {"gather rows of summands", gather_rows(true)},
      {"gather rows", gather_rows(false)},
      {"reduce-scatter rows", over_group(reduce_scatter_to_sequence_parallel_region)},
      {"gather columns of summands", over_group(all_gather_last_dim_from_tensor_parallel_region)},
      {"reduce-scatter columns", over_group(reduce_scatter_last_dim_to_tensor_parallel_region)},
      {"all_to_all", exchange},
      {"all_to_all_sp2hp", over_group(all_to_all_sp2hp)},
      {"all_to_all_hp2sp", over_group(all_to_all_hp2sp)}};
}

}  // namespace kernbench::test
