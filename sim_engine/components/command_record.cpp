#include "sim_engine/components/command_record.h"

#include <fmt/format.h>

#include <array>

#include "sim_engine/components/ipcq.h"

namespace kernbench::sim {

namespace {

constexpr std::array kOpKinds = {OpKind::load,      OpKind::store, OpKind::math, OpKind::gemm,
                                 OpKind::composite, OpKind::send,  OpKind::send, OpKind::recv};
static_assert(kOpKinds.size() == std::variant_size_v<Work>);  // in its order

std::int64_t count_products(const GemmSize& size) {
  return size.m * size.n * size.k;
}

std::string label_of_product(std::string_view name, const GemmSize& size) {
  return fmt::format("{} [{}, {}] x [{}, {}]", name, size.m, size.k, size.k, size.n);
}

// "load 4096 B", "softmax 256 B", "gemm [64, 32] x [32, 64]"
std::string make_label(const Command& command, const OpRecord& op) {
  switch (op.kind) {
    case OpKind::gemm:
      return label_of_product("gemm", std::get<work::Gemm>(command.work).size);
    case OpKind::composite:
      return label_of_product("composite", std::get<work::Composite>(command.work).plan->size);
    case OpKind::math:
      return fmt::format("{} {} B", std::get<work::Math>(command.work).operation, op.bytes);
    default:
      return fmt::format("{} {} B", name_of(op.kind), op.bytes);
  }
}

const work::Message* message_in(const Command& command) {
  return std::visit(
      [](const auto& work) -> const work::Message* {
        if constexpr (std::is_base_of_v<work::Message, std::remove_cvref_t<decltype(work)>>) {
          return &work;
        }
        return nullptr;
      },
      command.work);
}

}  // namespace

OpRecord make_record(const Command& command, std::uint32_t unit, Time now) {
  OpRecord op{.kind = kOpKinds.at(command.work.index()),
              .unit = unit,
              .start = command.started,
              .end = now};
  if (op.kind == OpKind::composite) {
    const CompositePlan& plan = *std::get<work::Composite>(command.work).plan;
    op.dtype = plan.c.buffer.dtype;
    op.bytes = loaded_bytes(plan) + stored_bytes(plan);
    op.element_count = count_products(plan.size);
    return op;
  }
  const bool takes = op.kind == OpKind::send || op.kind == OpKind::store;
  const Tile& data = takes ? command.operands[0] : command.result;
  op.dtype = data->dtype;
  op.bytes = data->bytes;
  op.element_count = op.kind == OpKind::gemm
                         ? count_products(std::get<work::Gemm>(command.work).size)
                         : data->element_count;
  return op;
}

void trace(TraceRecorder& recorder, const Command& command, const OpRecord& op,
           const PeLocation& location) {
  std::string unit = fmt::format("cube{}.pe{}.{}", location.cube, location.pe, name_of(op.kind));
  TraceArrow arrow;
  if (const work::Message* message = message_in(command)) {
    const bool sends = op.kind == OpKind::send;
    const auto& ends = message->channel->ends();
    unit += fmt::format(".{}", to_string(sends ? ends.out : ends.in));
    arrow = {sends ? TraceArrow::End::begins : TraceArrow::End::ends, message->arrow};
  }
  recorder.span(recorder.track(location.sip, unit),
                recorder.label(make_label(command, op), op.bytes), op.start, op.end, arrow);
}

}  // namespace kernbench::sim
