// A message in a queue.

#pragma once

#include <cstdint>

#include "sim_engine/base/dtype.h"
#include "sim_engine/base/units.h"
#include "sim_engine/components/operation.h"
#include "sim_engine/values/value.h"

namespace kernbench::sim {

struct IpcqMessage {
  Value value;
  DType dtype = DType::f32;
  std::int64_t element_count = 0;
  Bytes bytes = 0;
  Time sent{0};
  Operation operation;
  std::uint32_t arrow = 0;  // joins the send and the receive in a trace
};

}  // namespace kernbench::sim
