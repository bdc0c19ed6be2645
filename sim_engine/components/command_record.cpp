#include "sim_engine/components/command_record.h"

#include <fmt/format.h>

#include <array>

#include "sim_engine/components/composite.h"

namespace kernbench::sim {

namespace {

bool is_send(Command::Kind kind) {
  return kind == Command::Kind::send || kind == Command::Kind::copy_to;
}

OpKind op_kind_of(Command::Kind kind) {
  constexpr std::array kKinds = {OpKind::load,      OpKind::store, OpKind::math, OpKind::gemm,
                                 OpKind::composite, OpKind::send,  OpKind::send, OpKind::recv};
  return kKinds[static_cast<std::size_t>(kind)];  // in the order of Command::Kind
}

std::int64_t products_of(const GemmSize& size) {
  return size.m * size.n * size.k;
}

std::string label_of_product(std::string_view name, const GemmSize& size) {
  return fmt::format("{} [{}, {}] x [{}, {}]", name, size.m, size.k, size.k, size.n);
}

// "load 4096 B", "softmax 256 B", "gemm [64, 32] x [32, 64]"
std::string label_of(const Command& command, const OpRecord& op) {
  switch (op.kind) {
    case OpKind::gemm:
      return label_of_product("gemm", command.gemm);
    case OpKind::composite:
      return label_of_product("composite", command.composite->plan().size);
    case OpKind::math:
      return fmt::format("{} {} B", command.operation, op.bytes);
    default:
      return fmt::format("{} {} B", name_of(op.kind), op.bytes);
  }
}

}  // namespace

OpRecord record_of(const Command& command, std::uint32_t unit, Time now) {
  OpRecord op{.kind = op_kind_of(command.kind), .unit = unit, .start = command.started, .end = now};
  if (op.kind == OpKind::composite) {
    const CompositePlan& plan = command.composite->plan();
    op.dtype = plan.c.buffer.dtype;
    op.bytes = loaded_bytes(plan) + stored_bytes(plan);
    op.element_count = products_of(plan.size);
    return op;
  }
  const bool takes = is_send(command.kind) || command.kind == Command::Kind::store;
  const Tile& data = takes ? command.a : command.result;
  op.dtype = data->dtype;
  op.bytes = data->bytes;
  op.element_count = op.kind == OpKind::gemm ? products_of(command.gemm) : data->element_count;
  return op;
}

void trace(TraceRecorder& recorder, const Command& command, const OpRecord& op,
           const PeLocation& location) {
  std::string unit = fmt::format("cube{}.pe{}.{}", location.cube, location.pe, name_of(op.kind));
  TraceArrow arrow;
  if (op.kind == OpKind::send || op.kind == OpKind::recv) {
    const bool sends = op.kind == OpKind::send;
    const auto& ends = command.channel->ends();
    unit += fmt::format(".{}", to_string(sends ? ends.out : ends.in));
    arrow = {sends ? TraceArrow::End::begins : TraceArrow::End::ends, command.arrow};
  }
  recorder.span_in_lane(location.sip, unit, recorder.label(label_of(command, op)), op.start, op.end,
                        arrow);
}

}  // namespace kernbench::sim
