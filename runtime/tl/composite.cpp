// Implements tl.composite: a tiled matrix product as one command.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/fiber/fiber_scheduler.h"
#include "runtime/guards/command_budget.h"
#include "runtime/tl/tl.h"
#include "sim_engine/base/enum_names.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/kernel_run.h"
#include "sim_engine/components/routing.h"

namespace kernbench::tl {

FurtherBlocks::FurtherBlocks(std::vector<RowBlock> blocks) {
  if (!blocks.empty()) list_ = std::make_shared<List>(List{std::move(blocks)});
}

// A check of blocks: its question, and its result.
struct CheckedBlocks {
  sim::RegionId first;     // where the matrix begins
  std::int64_t begin = 0;  // and with which element, of column 0 of the list
  std::int64_t rows = 0;   // of the whole matrix
  std::int64_t pitch = 0;
  DType dtype = DType::f32;
  std::uint64_t destroyed = 0;  // regions of the device, until then

  // The columns that all blocks have, from that of the list's pointers on.
  std::int64_t first_column = 0;
  std::int64_t last_column = 0;
  std::shared_ptr<const sim::FurtherBlocks> blocks = nullptr;

  // True if the columns [column, end) of the same matrix need no check.
  bool holds_for(const CheckedBlocks& asked, std::int64_t column, std::int64_t end) const {
    const auto question = [](const CheckedBlocks& one) {
      return std::tuple(one.first.index, one.first.generation, one.begin, one.rows, one.pitch,
                        one.dtype, one.destroyed);
    };
    return question(*this) == question(asked) && column >= first_column && end <= last_column;
  }
};

namespace {

constexpr std::size_t kActivationCount = 5;

// Limits sizes so that products of two do not overflow.
constexpr std::int64_t kMostSize = (std::int64_t{1} << 31) - 1;

bool touch(const sim::MatrixAt& a, const sim::ElementRange& in_a, const sim::MatrixAt& b,
           const sim::ElementRange& in_b) {
  return a.buffer.region == b.buffer.region && overlap(in_a.simplified(), in_b.simplified());
}

// Returns the name of the operand that c overlaps; empty if there is none.
std::string_view overlapped_operand(const sim::CompositePlan& plan) {
  const auto& [m, n, k] = plan.size;
  std::vector<std::pair<const sim::MatrixAt*, sim::ElementRange>> in_c;
  plan.c.for_each_part(plan.c.rows_at(0, 0, m, n),
                       [&](const sim::MatrixAt& block, const sim::ElementRange& elements) {
                         in_c.emplace_back(&block, elements);
                       });
  const auto overlaps_c = [&](const sim::MatrixAt& matrix, const sim::ElementRange& elements) {
    return std::ranges::any_of(in_c, [&](const auto& block) {
      return touch(*block.first, block.second, matrix, elements);
    });
  };
  // Mostly no region of c is one of theirs.
  const auto may_read_c = [&](const sim::OperandAt& operand) {
    return operand.list == nullptr || std::ranges::any_of(in_c, [&](const auto& block) {
             return operand.list->regions->contains(block.first->buffer.region);
           });
  };
  const auto reads_c = [&](const sim::OperandAt& operand, std::int64_t rows, std::int64_t columns) {
    bool overlaps = false;
    if (!may_read_c(operand)) return overlaps;
    operand.for_each_part(operand.rows_at(0, 0, rows, columns),
                          [&](const sim::MatrixAt& block, const sim::ElementRange& elements) {
                            overlaps = overlaps || overlaps_c(block, elements);
                          });
    return overlaps;
  };
  if (reads_c(plan.a, m, k)) return "a";
  if (reads_c(plan.b, k, n)) return "b";
  if (plan.bias && overlaps_c(*plan.bias, plan.bias->block(0, 0, 1, n))) return "bias";
  return "";
}

}  // namespace

void Context::check_sizes(const CompositeGemm& gemm) const {
  const auto is_size = [](std::int64_t size, std::int64_t least) {
    return size >= least && size <= kMostSize;
  };
  if (!is_size(gemm.m, 1) || !is_size(gemm.n, 1) || !is_size(gemm.k, 1)) {
    throw DeviceError("KB-K033", "{}: m {}, n {}, k {}; sizes from 1 to {} are wanted",
                      where("tl.composite"), gemm.m, gemm.n, gemm.k, kMostSize);
  }
  if (!is_size(gemm.tile_m, 0) || !is_size(gemm.tile_n, 0) || !is_size(gemm.tile_k, 0)) {
    throw DeviceError("KB-K033",
                      "{}: tile_m {}, tile_n {}, tile_k {}; sizes from 1 to {} are wanted, or 0 "
                      "for tiles that are chosen",
                      where("tl.composite"), gemm.tile_m, gemm.tile_n, gemm.tile_k, kMostSize);
  }
}

sim::MatrixAt Context::matrix_at(std::string_view operation, const Pointer& pointer,
                                 const Shape& shape, DType dtype, std::int64_t pitch) const {
  const std::int64_t distance = pitch == 0 ? shape[1] : pitch;
  show(operation, pointer, rows_at(operation, pointer, shape, dtype, distance), false);
  return {pointer.buffer_, pointer.offset(), distance};
}

void Context::check_readers(std::string_view operand, const CompositeGemm::Readers& readers) const {
  if (readers.in_cube >= 0 && readers.in_launch >= readers.in_cube) return;
  throw DeviceError("KB-K033",
                    "{}: {} has {} readers in the cube and {} in the launch; none, or at least "
                    "one in the cube and no fewer in the launch, are wanted",
                    where("tl.composite"), operand, readers.in_cube, readers.in_launch);
}

sim::OperandAt Context::operand_at(std::string_view operand, const Pointer& first,
                                   const FurtherBlocks& further, const Shape& shape, DType dtype,
                                   std::int64_t pitch) const {
  const std::int64_t rows = further.empty() ? shape[0] : further.list_->blocks.front().row;
  check_row(operand, 0, rows, shape);
  sim::OperandAt whole{
      matrix_at(fmt::format("tl.composite ({})", operand), first, {rows, shape[1]}, dtype, pitch)};
  if (further.empty()) return whole;
  whole.list = blocks_behind(whole, operand, further, shape, dtype);
  whole.first_column = further.column_;
  return whole;
}

void Context::check_row(std::string_view operand, std::int64_t row, std::int64_t next,
                        const Shape& shape) const {
  if (row < next) return;
  throw DeviceError("KB-K033",
                    "{}: a block of {} begins at row {} and the next one at {}; rows in "
                    "ascending order, below {}, are wanted",
                    where("tl.composite"), operand, row, next, shape[0]);
}

// PEs that share a list are answered by the check of the first one, unless each access is shown.
std::shared_ptr<const sim::FurtherBlocks> Context::blocks_behind(const sim::MatrixAt& first,
                                                                 std::string_view operand,
                                                                 const FurtherBlocks& further,
                                                                 const Shape& shape,
                                                                 DType dtype) const {
  const CheckedBlocks asked{first.buffer.region,
                            first.begin - further.column_,
                            shape[0],
                            first.pitch,
                            dtype,
                            run_.pe().services().memory.destroyed_count()};
  std::shared_ptr<const CheckedBlocks>& checked = further.list_->checked;
  const std::int64_t end = further.column_ + shape[1];
  const bool is_checked = watch_ == nullptr && checked != nullptr && shape[1] <= asked.pitch &&
                          checked->holds_for(asked, further.column_, end);
  if (!is_checked) checked = check_blocks(asked, first, operand, further, shape);
  return checked->blocks;
}

std::shared_ptr<const CheckedBlocks> Context::check_blocks(const CheckedBlocks& asked,
                                                           const sim::MatrixAt& first,
                                                           std::string_view operand,
                                                           const FurtherBlocks& further,
                                                           const Shape& shape) const {
  const std::string operation = fmt::format("tl.composite ({})", operand);
  const std::vector<RowBlock>& given = further.list_->blocks;
  auto found = std::make_shared<CheckedBlocks>(asked);
  found->last_column = std::numeric_limits<std::int64_t>::max();
  auto blocks = std::make_shared<sim::FurtherBlocks>();
  std::vector<sim::MatrixRegions::Part> parts{
      {asked.first, asked.begin, given.front().row, asked.pitch}};
  sim::PeLocation before = first.buffer.home;
  const Topology& topology = run_.pe().services().topology;
  const auto slice_of = [&](const sim::PeLocation& home) {
    return std::tuple(home.sip, home.cube, sim::Routing::hbm_slice_of(topology, home.pe));
  };
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto& [row, pointer] = given[i];
    const std::int64_t rows = (i + 1 < given.size() ? given[i + 1].row : shape[0]) - row;
    check_row(operand, row, row + rows, shape);
    sim::MatrixAt block =
        matrix_at(operation, pointer + further.column_, {rows, shape[1]}, asked.dtype, asked.pitch);
    block.begin -= further.column_;
    block.joins_previous = slice_of(block.buffer.home) == slice_of(before);
    before = block.buffer.home;
    const std::int64_t until = block.buffer.first + block.buffer.element_count;
    found->first_column = std::max(found->first_column, block.buffer.first - block.begin);
    found->last_column =
        std::min(found->last_column, until - block.begin - (rows - 1) * block.pitch);
    // A rule is asked at each access.
    if (pointer.rule_ != nullptr) found->last_column = std::numeric_limits<std::int64_t>::min();
    parts.push_back({block.buffer.region, block.begin, rows, block.pitch});
    blocks->blocks.push_back({row, block});
  }
  blocks->regions = std::make_shared<const sim::MatrixRegions>(std::move(parts));
  found->blocks = std::move(blocks);
  return found;
}

sim::CompositePlan Context::make_plan(const CompositeGemm& gemm) const {
  check_sizes(gemm);
  if (!can_be_factors(gemm.a.dtype(), gemm.b.dtype())) {
    throw DeviceError("KB-K031",
                      "{}: a is {} and b is {}; they must be of one type, or both fp8",
                      where("tl.composite"), name_of(gemm.a.dtype()), name_of(gemm.b.dtype()));
  }
  sim::CompositePlan plan;
  plan.size = {gemm.m, gemm.n, gemm.k};
  const auto in_memory = [](std::int64_t rows, std::int64_t columns, bool is_transposed) {
    return is_transposed ? Shape{columns, rows} : Shape{rows, columns};
  };
  check_readers("a", gemm.a_readers);
  check_readers("b", gemm.b_readers);
  plan.a = operand_at("a", gemm.a, gemm.a_further, in_memory(gemm.m, gemm.k, gemm.transpose_a),
                      gemm.a.dtype(), gemm.a_pitch);
  plan.b = operand_at("b", gemm.b, gemm.b_further, in_memory(gemm.k, gemm.n, gemm.transpose_b),
                      gemm.b.dtype(), gemm.b_pitch);
  plan.c = operand_at("c", gemm.c, gemm.c_further, {gemm.m, gemm.n},
                      gemm.out_dtype.value_or(gemm.c.dtype()), gemm.c_pitch);
  plan.a.readers = {gemm.a_readers.in_cube, gemm.a_readers.in_launch};
  plan.b.readers = {gemm.b_readers.in_cube, gemm.b_readers.in_launch};
  plan.a.is_transposed = gemm.transpose_a;
  plan.b.is_transposed = gemm.transpose_b;
  if (gemm.bias) {
    plan.bias = matrix_at("tl.composite (bias)", *gemm.bias, {1, gemm.n}, gemm.bias->dtype(), 0);
  }
  plan.scale = static_cast<float>(gemm.scale);
  if (!is_enumerator(gemm.activation, kActivationCount)) {
    throw DeviceError("KB-K036",
                      "{}: there is no activation {}; there are: none, relu, sigmoid, silu, gelu",
                      where("tl.composite"), number_of(gemm.activation));
  }
  plan.activation = gemm.activation;
  if (const std::string_view operand = overlapped_operand(plan); !operand.empty()) {
    throw DeviceError("KB-K034",
                      "{}: c overlaps {}, of which tiles are loaded still when the first of c is "
                      "stored; use another tensor",
                      where("tl.composite"), operand);
  }
  return plan;
}

// Held scratch stays held, but scratch of commands under way is free once make_room() has waited
// for them.  If not even one fold of the array fits beside the held scratch, make_room() reports
// it.
void Context::choose_tile(sim::CompositePlan& plan, const sim::GemmSize& wanted) {
  while (run_.composites_under_way() > 0) {
    run_.wake_when_outstanding(run_.outstanding() - 1);
    fibers_.park([] { return std::string("the composites before"); });
  }
  const Bytes capacity = run_.scratch_capacity();
  const Bytes scratch = run_.outstanding() == 0 ? run_.free_scratch() : capacity - held_scratch();
  const GemmSpec& array = run_.pe().services().topology.pe.gemm;
  const auto size_of_fold = [](std::int64_t given, std::int64_t side, std::int64_t size) {
    return std::min(given > 0 ? given : side, size);
  };
  const sim::GemmSize fold = {size_of_fold(wanted.m, array.rows, plan.size.m),
                              size_of_fold(wanted.n, array.columns, plan.size.n),
                              size_of_fold(wanted.k, array.rows, plan.size.k)};
  plan.tile = fold;
  const Bytes fold_bytes = working_set(plan);
  const auto tile = run_.choose_tile(plan, wanted, scratch);
  const bool is_fold = tile && tile->m >= fold.m && tile->n >= fold.n && tile->k >= fold.k;
  const bool waits_for_fold = !is_fold && fold_bytes > scratch && fold_bytes <= capacity;
  if (tile && !waits_for_fold) plan.tile = *tile;
}

void Context::set_tile(sim::CompositePlan& plan, const sim::GemmSize& wanted) {
  if (wanted.m > 0 && wanted.n > 0 && wanted.k > 0) {
    plan.tile = {std::min(wanted.m, plan.size.m), std::min(wanted.n, plan.size.n),
                 std::min(wanted.k, plan.size.k)};
  } else {
    choose_tile(plan, wanted);
  }
  const Bytes capacity = run_.scratch_capacity();
  if (working_set(plan) > capacity) {
    throw DeviceError("KB-K035",
                      "{}: tiles of m {}, n {}, k {}, two of each, need {} B of TCM, which has {} "
                      "B; give smaller ones, or none and they are chosen",
                      where("tl.composite"), plan.tile.m, plan.tile.n, plan.tile.k,
                      working_set(plan), capacity);
  }
}

void Context::count_parts(const sim::CompositePlan& plan) {
  const std::int64_t parts = part_count(plan);
  const std::int64_t most = runtime::CommandBudget::kOwnCommands + budget_.limit();
  if (budget_.limit() > 0 && parts > most) {
    throw DeviceError("KB-K033",
                      "{}: tiles of m {}, n {}, k {} make {} commands, and a kernel may issue {}; "
                      "give larger tiles, or raise RuntimeOptions::command_limit, which is {}",
                      where("tl.composite"), plan.tile.m, plan.tile.n, plan.tile.k, parts, most,
                      budget_.limit());
  }
  count_commands("tl.composite", parts);
}

void Context::composite(const CompositeGemm& gemm) {
  sim::CompositePlan plan = make_plan(gemm);
  const auto check_block = [&](const Pointer& pointer, const sim::MatrixAt& block,
                               std::int64_t rows) {
    check_store("tl.composite", pointer, block.block(0, 0, rows, gemm.n));
  };
  const auto row_of = [&](std::size_t i) {
    return i < gemm.c_further.size() ? gemm.c_further[i].row : gemm.m;
  };
  check_block(gemm.c, plan.c, row_of(0));
  for (std::size_t i = 0; i < gemm.c_further.size(); ++i) {
    sim::MatrixAt block = plan.c.matrix_of(i + 1);
    block.begin += plan.c.first_column;
    check_block(gemm.c_further[i].pointer, block, row_of(i + 1) - row_of(i));
  }
  set_tile(plan, {gemm.tile_m, gemm.tile_n, gemm.tile_k});
  count_parts(plan);
  make_room("tl.composite", working_set(plan));
  run_.composite(std::move(plan));
}

}  // namespace kernbench::tl
