#include "runtime/tensor/describe.h"

#include <fmt/format.h>

#include "runtime/tensor/tensor_storage.h"

namespace kernbench::runtime {

DPPolicy placed(const Tensor& tensor) {
  const Topology& topology = tensor.storage()->simulation->machine().topology();
  DPPolicy dp = tensor.dp();
  if (dp.num_cubes == 0) dp.num_cubes = topology.cube_count();
  if (dp.num_pes == 0) dp.num_pes = topology.pe_count();
  return dp;
}

std::string describe(const Tensor& tensor) {
  return fmt::format("tensor '{}' {} {} ({}) on device {}", tensor.name(),
                     to_string(tensor.shape()), name_of(tensor.dtype()), to_string(placed(tensor)),
                     tensor.device());
}

std::string words_for(const DPPolicy& policy) {
  if (policy.num_cubes == 1 && policy.num_pes == 1) return "kb::DPPolicy::on_one_pe()";
  std::string words = fmt::format("{{.cube = kb::Shard::{}, .pe = kb::Shard::{}",
                                  name_of(policy.cube), name_of(policy.pe));
  if (policy.num_cubes != 0) words += fmt::format(", .num_cubes = {}", policy.num_cubes);
  if (policy.num_pes != 0) words += fmt::format(", .num_pes = {}", policy.num_pes);
  if (policy.is_shared) words += ", .is_shared = true";
  return words + "}";
}

std::string words_for(DType dtype) {
  return fmt::format("kb::DType::{}", dtype == DType::boolean ? "boolean" : name_of(dtype));
}

}  // namespace kernbench::runtime
