#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tp/mappings.h"
#include "tp/misuse.h"
#include "tp/parallel_state.h"

namespace kernbench::tp {

namespace {

constexpr std::int64_t kTile = 4096;  // elements that the kernel below holds at a time

// to[0, count) = from[first, first + count)
void copy_elements(tl::Context& tl, const tl::Pointer& to, const tl::Pointer& from,
                   std::int64_t first, std::int64_t count, DType dtype) {
  for (std::int64_t done = 0; done < count; done += kTile) {
    const std::int64_t size = std::min(kTile, count - done);
    tl.store(to + done, tl.load(from + (first + done), {size}, dtype));
  }
}

std::vector<Shape> list_shapes(std::span<const std::string> keys, const TensorDict& data,
                               DType dtype) {
  std::vector<Shape> shapes;
  for (const std::string& key : keys) {
    const auto found = data.find(key);
    if (found == data.end()) {
      wrong_data(fmt::format("broadcast_data: there is no '{}'", key));
    }
    const Tensor& tensor = found->second;
    if (!tensor.is_host() && tensor.dtype() != dtype) {
      wrong_data(fmt::format("broadcast_data: {} has data type {} which is different than {}", key,
                             name_of(tensor.dtype()), name_of(dtype)));
    }
    shapes.push_back(tensor.shape());
  }
  return shapes;
}

std::vector<float> read_elements(std::span<const std::string> keys, const TensorDict& data) {
  std::vector<float> all;
  for (const std::string& key : keys) {
    const std::vector<float> elements = data.find(key)->second.to_vector();
    all.insert(all.end(), elements.begin(), elements.end());
  }
  return all;
}

}  // namespace

TensorDict broadcast_data(RuntimeContext& torch, std::span<const std::string> keys,
                          const TensorDict& data, DType dtype,
                          const std::optional<distributed::ProcessGroup>& tp_group) {
  const ProcessGroup group = group_or_tensor_model_parallel(torch, tp_group);
  const bool is_source = torch.distributed.get_rank(group) == 0;
  const distributed::SourceOptions from{.group = group, .group_src = 0};
  std::vector<Shape> shapes = is_source ? list_shapes(keys, data, dtype) : std::vector<Shape>{};
  torch.distributed.broadcast_object_list(shapes, from);

  std::int64_t total = 0;
  for (const Shape& shape : shapes) total += shape.numel();
  const TensorOptions options{.dtype = dtype, .dp = DPPolicy::on_one_pe()};
  Tensor flat = torch.empty({total}, options);
  if (is_source) flat.copy_(RuntimeContext::tensor(read_elements(keys, data), {total}));
  torch.distributed.broadcast(flat, from);

  TensorDict received;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Tensor own = torch.empty(shapes[i], options);
    torch.launch("broadcast_data", copy_elements, own, flat, first, shapes[i].numel(), dtype);
    first += shapes[i].numel();
    received.emplace(keys[i], own);
  }
  return received;
}

}  // namespace kernbench::tp
