// The two ends of a queue between PEs.

#pragma once

#include "sim_engine/topology/location.h"

namespace kernbench::sim {

struct IpcqEnds {
  PeLocation from;
  Port out;  // the sender's name for the receiver
  PeLocation to;
  Port in;  // the receiver's name for the sender

  bool in_one_sip() const { return from.sip == to.sip; }
};

}  // namespace kernbench::sim
