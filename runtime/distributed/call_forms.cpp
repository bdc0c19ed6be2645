// Overloads of the collectives: each calls the overload that does the work.

#include "runtime/distributed/distributed.h"

namespace kernbench::distributed {

namespace {

CollectiveOptions without_op(const ReductionOptions& options) {
  return {
      .group = options.group, .async_op = options.async_op, .reproducible = options.reproducible};
}

}  // namespace

ProcessGroup DistributedContext::new_group(std::initializer_list<int> ranks,
                                           const NewGroupOptions& options,
                                           std::source_location location) {
  return new_group(std::span(ranks.begin(), ranks.size()), options, location);
}

Work DistributedContext::all_reduce(const Tensor& x, const ReductionOptions& options,
                                    std::source_location location) {
  return all_reduce(x, options.op, without_op(options), location);
}

Work DistributedContext::all_reduce_coalesced(const std::vector<Tensor>& tensors,
                                              const ReductionOptions& options,
                                              std::source_location location) {
  return all_reduce_coalesced(tensors, options.op, without_op(options), location);
}

Work DistributedContext::reduce(const Tensor& x, int dst, const ReductionOptions& options,
                                std::source_location location) {
  return reduce(x, dst, options.op, without_op(options), location);
}

Work DistributedContext::reduce_scatter(const Tensor& output, const std::vector<Tensor>& inputs,
                                        const ReductionOptions& options,
                                        std::source_location location) {
  return reduce_scatter(output, inputs, options.op, without_op(options), location);
}

Work DistributedContext::reduce_scatter_tensor(const Tensor& output, const Tensor& input,
                                               const ReductionOptions& options,
                                               std::source_location location) {
  return reduce_scatter_tensor(output, input, options.op, without_op(options), location);
}

Work DistributedContext::all_to_all_single(const Tensor& output, const Tensor& input,
                                           std::initializer_list<std::int64_t> output_split_sizes,
                                           std::initializer_list<std::int64_t> input_split_sizes,
                                           const CollectiveOptions& options,
                                           std::source_location location) {
  return all_to_all_single(
      output, input, std::span(output_split_sizes.begin(), output_split_sizes.size()),
      std::span(input_split_sizes.begin(), input_split_sizes.size()), options, location);
}

Work DistributedContext::all_to_all_single(const Tensor& output, const Tensor& input,
                                           const CollectiveOptions& options,
                                           std::source_location location) {
  return all_to_all_single(output, input, std::span<const std::int64_t>(), {}, options, location);
}

Work DistributedContext::gather(const Tensor& x, std::initializer_list<Tensor> gather_list,
                                const DestinationOptions& options, std::source_location location) {
  return gather(x, std::span(gather_list.begin(), gather_list.size()), options, location);
}

Work DistributedContext::gather(const Tensor& x, const DestinationOptions& options,
                                std::source_location location) {
  return gather(x, std::span<const Tensor>(), options, location);
}

Work DistributedContext::scatter(const Tensor& x, std::initializer_list<Tensor> scatter_list,
                                 const SourceOptions& options, std::source_location location) {
  return scatter(x, std::span(scatter_list.begin(), scatter_list.size()), options, location);
}

Work DistributedContext::scatter(const Tensor& x, const SourceOptions& options,
                                 std::source_location location) {
  return scatter(x, std::span<const Tensor>(), options, location);
}

}  // namespace kernbench::distributed
