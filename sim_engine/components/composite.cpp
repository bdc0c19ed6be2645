#include "sim_engine/components/composite.h"

#include <algorithm>
#include <utility>

#include "sim_engine/components/math_timing.h"

namespace kernbench::sim {

namespace {

// Operations of an epilogue on one tile: what they compute, and what they cost.
class EpilogueOps {
 public:
  EpilogueOps(PeServices& services, std::int64_t count) : services_(services), count_(count) {}

  std::int64_t cycles() const { return cycles_; }
  std::int64_t lane_operations() const { return lane_operations_; }

  Value apply(MathOp op, const Value& a, const Value& b) { return apply(op, std::array{a, b}); }
  Value apply(MathOp op, const Value& a, float number) { return apply(op, a, constant(number)); }
  Value apply(MathOp op, const Value& a) { return apply(op, std::array{a}); }
  // a * number + b
  Value fma(const Value& a, float number, const Value& b) {
    return apply(MathOp::fma, std::array{a, constant(number), b});
  }

  Value activate(Activation activation, const Value& x) {
    switch (activation) {
      case Activation::none:
        return x;
      case Activation::relu:
        return apply(MathOp::maximum, x, 0.0F);
      case Activation::sigmoid:
        return apply(MathOp::sigmoid, x);
      case Activation::silu:
        return apply(MathOp::multiply, x, apply(MathOp::sigmoid, x));
      case Activation::gelu:
        break;
    }
    // (1 + tanh(u)) / 2 = sigmoid(2 u)
    constexpr float kTwiceRootOfTwoOverPi = 1.5957691216F;
    const Value cube = apply(MathOp::multiply, apply(MathOp::multiply, x, x), x);
    const Value inner = fma(cube, 0.044715F, x);
    const Value scaled = apply(MathOp::multiply, inner, kTwiceRootOfTwoOverPi);
    return apply(MathOp::multiply, x, apply(MathOp::sigmoid, scaled));
  }

 private:
  Value constant(float number) { return services_.memory.constant(DType::f32, count_, number); }
  template <std::size_t n>
  Value apply(MathOp op, const std::array<Value, n>& operands) {
    cycles_ += math_cycles(services_.topology.pe, op, count_);
    if (services_.work != nullptr) {
      lane_operations_ += count_lane_operations(services_.topology.pe, op, count_);
    }
    return services_.memory.math(op, DType::f32, operands);
  }

  PeServices& services_;
  const std::int64_t count_;
  std::int64_t cycles_ = 0;
  std::int64_t lane_operations_ = 0;
};

work::HbmAccess access_to(const OperandAt& operand, const OperandAt::Rows& rows) {
  work::HbmAccess access{
      {operand.matrix_of(rows.block).buffer, operand.in_first_block(rows).simplified()}};
  if (access.elements.count() == rows.count()) return access;
  access.operand = &operand;
  access.rows = rows;
  return access;
}

}  // namespace

Composite::Composite(PeScheduler& scheduler, Command& command, CompositePlan plan, Tile scratch,
                     std::uint64_t kernel, Waits& waits)
    : scheduler_(scheduler),
      command_(command),
      plan_(std::move(plan)),
      kernel_(kernel),
      waits_(waits),
      counts_(tile_counts(plan_.size, plan_.tile)),
      scratch_(std::move(scratch)),
      step_count_(counts_.m * counts_.n * counts_.k) {}

Composite::Step Composite::step_at(std::int64_t index) const {
  const auto& [m, n, k] = plan_.tile;
  const std::int64_t along_k = index % counts_.k;
  const std::int64_t result = index / counts_.k;
  Step step{};
  step.row = result / counts_.n * m;
  step.column = result % counts_.n * n;
  step.depth = along_k * k;
  step.size = {std::min(m, plan_.size.m - step.row), std::min(n, plan_.size.n - step.column),
               std::min(k, plan_.size.k - step.depth)};
  step.begins_result = along_k == 0;
  step.ends_result = along_k == counts_.k - 1;
  return step;
}

// A matrix that is read from many blocks is one access: else those of a launch, each from as many
// blocks as there are PEs, would be a large part of the host's work.
void Composite::open_accesses() {
  PeServices& services = scheduler_.services();
  const AccessOrigin origin{"tl.composite", scheduler_.location(), kernel_};
  const Time now = services.engine.now();
  const auto begin = [&](const MemoryUse& use) {
    accesses_.push_back(services.accesses.begin(
        use.region, use.elements, use.writes ? Access::write : Access::read, origin, now));
  };
  for_each_operand(
      plan_, [&](const OperandAt& operand, std::int64_t rows, std::int64_t columns, bool writes) {
        if (writes || operand.list == nullptr) {
          return for_each_block_use(operand, rows, columns, writes, begin);
        }
        matrix_reads_.push_back(services.accesses.begin_read(
            operand.list->regions, {operand.first_column, operand.is_transposed ? rows : columns},
            origin, now));
      });
  use_bias(plan_, begin);
}

void Composite::close_accesses() {
  AccessTracker& tracker = scheduler_.services().accesses;
  for (const AccessId access : accesses_) tracker.end(access);
  for (const MatrixReadId read : matrix_reads_) tracker.end(read);
}

void Composite::start() {
  open_accesses();
  for (int i = 0; i < 2 && next_step_ < step_count_; ++i) issue_step(step_at(next_step_++));
}

void Composite::completed(const Command& part) {
  if (const auto* load = std::get_if<work::Load>(&part.work)) shared_from_hbm_ += load->from_hbm;
  const bool is_product = std::holds_alternative<work::Gemm>(part.work);
  const bool is_store = std::holds_alternative<work::Store>(part.work);
  if (is_product && next_step_ < step_count_) issue_step(step_at(next_step_++));
  if (is_store && ++stores_done_ == stores_issued_ && results_issued_ == counts_.m * counts_.n) {
    scratch_ = {};
    close_accesses();
    scheduler_.finish(command_);  // and this
  }
}

Command& Composite::make_command() {
  PeServices& services = scheduler_.services();
  Command& command = services.commands.make();
  command.issuer = this;
  command.issued = services.engine.now();
  return command;
}

void Composite::issue_step(const Step& step) {
  const auto& [m, n, k] = step.size;
  const Tile a = load_tile(plan_.a, step.row, step.depth, m, k);
  const Tile b = load_tile(plan_.b, step.depth, step.column, k, n);
  // The result reuses the scratch of the result before the last, so it waits for that one's store.
  Tile& place = stored_[static_cast<std::size_t>(results_issued_ % 2)];
  if (step.begins_result && plan_.bias) {
    const HbmPart bias{plan_.bias->buffer, plan_.bias->block(0, step.column, 1, n).simplified()};
    bias_ = load({{bias}}, n, place);
  }
  const Tile product = multiply(step, a, b);
  if (step.ends_result) issue_end_of_result(step, product);
}

// A tile in several slices of HBM is a load from each, whose rows follow each other in scratch. The
// array reads a transposed tile column by column, which takes no time of its own.
Tile Composite::load_tile(const OperandAt& operand, std::int64_t row, std::int64_t column,
                          std::int64_t rows, std::int64_t columns) {
  operand.for_each_transfer(
      operand.rows_at(row, column, rows, columns), [&](const OperandAt::Rows& transfer) {
        parts_.push_back(
            load({access_to(operand, transfer), operand.is_shared()}, transfer.count(), {}));
      });
  Tile whole = parts_.front();
  if (parts_.size() > 1 || operand.is_transposed) {
    PeServices& services = scheduler_.services();
    whole = services.tiles.make_view(operand.buffer.dtype, rows * columns, parts_);
    whole->value = concat_parts();
    if (operand.is_transposed) {
      whole->value =
          services.memory.along_axis(AxisOp::transpose, whole->value, {1, columns, rows});
    }
  }
  parts_.clear();
  return whole;
}

Value Composite::concat_parts() const {
  if (parts_.size() == 1) return parts_.front()->value;
  std::vector<Value> values;
  values.reserve(parts_.size());
  for (const Tile& part : parts_) values.push_back(part->value);
  return scheduler_.services().memory.concat(values);
}

Tile Composite::load(const work::Load& access, std::int64_t count, const Tile& not_before) {
  PeServices& services = scheduler_.services();
  const DType dtype = access.buffer.dtype;
  Command& command = make_command();
  const Tile result = services.tiles.make_view(dtype, count, {});
  result->value = services.memory.declare(dtype, count);
  command.result = result;
  command.bytes = result->bytes;
  command.work = access;
  scheduler_.issue(command, std::span(&not_before, 1));
  return result;
}

Tile Composite::multiply(const Step& step, const Tile& a, const Tile& b) {
  PeServices& services = scheduler_.services();
  const bool rounds = step.ends_result && !plan_.has_epilogue();
  const DType dtype = rounds ? plan_.c.buffer.dtype : DType::f32;
  const Value before = step.begins_result ? Value{} : sum_->value;
  Command& command = make_command();
  command.work = work::Gemm{step.size, step.begins_result ? 0 : sum_->bytes};
  command.operands = {a, b, {}};
  const Tile result = services.tiles.make_view(dtype, step.size.m * step.size.n, {});
  result->value = services.memory.gemm(step.size, a->value, b->value, before, dtype);
  command.result = result;
  command.departed = services.tiles.make_view(DType::f32, 0, {});
  // The product waits until the previous one has reached the array and, if it begins a result,
  // until the result before the last is stored, whose place in scratch it takes.
  std::array<Tile, 2> not_before = {std::exchange(last_departed_, command.departed), {}};
  if (step.begins_result) not_before[1] = stored_[static_cast<std::size_t>(results_issued_ % 2)];
  scheduler_.issue(command, not_before);
  sum_ = result;
  return result;
}

// A result in several slices of HBM is a store to each.
void Composite::issue_end_of_result(const Step& step, Tile sum) {
  if (plan_.has_epilogue()) sum = run_epilogue(step, sum);
  PeServices& services = scheduler_.services();
  std::vector<Tile> done;
  std::int64_t offset = 0;
  plan_.c.for_each_transfer(plan_.c.rows_at(step.row, step.column, step.size.m, step.size.n),
                            [&](const OperandAt::Rows& transfer) {
                              const std::int64_t count = transfer.count();
                              Tile part = sum;
                              if (count < sum->element_count) {
                                part =
                                    services.tiles.make_view(sum->dtype, count, std::span(&sum, 1));
                                part->value = services.memory.slice(sum->value, offset, count);
                              }
                              offset += count;
                              done.push_back(store(transfer, part));
                            });
  stored_[static_cast<std::size_t>(results_issued_++ % 2)] =
      done.size() == 1 ? done.front() : services.tiles.make_view(DType::f32, 0, done);
}

Tile Composite::store(const OperandAt::Rows& rows, const Tile& tile) {
  Command& command = make_command();
  const Tile done = scheduler_.services().tiles.make_view(DType::f32, 0, {});
  command.operands[0] = tile;
  command.result = done;
  command.bytes = tile->bytes;
  command.work = work::Store{access_to(plan_.c, rows)};
  scheduler_.issue(command);
  ++stores_issued_;
  return done;
}

Tile Composite::run_epilogue(const Step& step, const Tile& sum) {
  PeServices& services = scheduler_.services();
  const auto& [m, n, k] = step.size;
  EpilogueOps ops(services, m * n);
  Value value = sum->value;
  if (plan_.scale != 1) value = ops.apply(MathOp::multiply, value, plan_.scale);
  if (plan_.bias) {
    const Value rows = services.memory.along_axis(AxisOp::broadcast, bias_->value, {1, m, n});
    value = ops.apply(MathOp::add, value, rows);
  }
  value = ops.activate(plan_.activation, value);
  const DType dtype = plan_.c.buffer.dtype;
  if (dtype != DType::f32) value = services.memory.math(MathOp::convert, dtype, std::array{value});
  Command& command = make_command();
  const Tile result = services.tiles.make_view(dtype, m * n, {});
  result->value = value;
  command.operands = {sum, std::exchange(bias_, {}), {}};
  command.result = result;
  command.work = work::Math{
      .cycles = ops.cycles(), .operation = "epilogue", .lane_operations = ops.lane_operations()};
  scheduler_.issue(command);
  return result;
}

}  // namespace kernbench::sim
