// What each device does, over time: a step's share of communication is read from it.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/context/device_activity.h"
#include "sim_engine/base/units.h"
#include "sim_engine/core/engine.h"

namespace kernbench::runtime {

// Adds up, for all devices, as kernels and collectives begin and end: two sums for each, however
// long a run is.
//
// A kernel runs from its start on its PE to its end.  A collective is under way from when its rank
// has called it, and earlier ones of the rank in its group are done, until the rank goes on: with
// its launches, and with waiting for ranks that come later.
class ActivityMeter {
 public:
  ActivityMeter(const sim::Engine& engine, int device_count)
      : engine_(engine), devices_(static_cast<std::size_t>(device_count)) {}

  void kernel_began(int device) { ++counted(device).kernels; }
  void kernel_ended(int device) { --counted(device).kernels; }
  void collective_began(int device) { ++counted(device).collectives; }
  void collective_ended(int device) { --counted(device).collectives; }

  // Since the simulation began.
  DeviceActivity of(int device) const;

  // What was under way has been dropped.
  void abandon();

 private:
  struct Device {
    DeviceActivity before;  // `since`
    Time since{0};
    int kernels = 0;  // under way
    int collectives = 0;
  };

  // Counted up to now.
  Device& counted(int device);

  const sim::Engine& engine_;
  std::vector<Device> devices_;
};

// A collective of a device's rank is under way as long as this lives.
class CollectiveUnderWay {
 public:
  CollectiveUnderWay(ActivityMeter& meter, int device) : meter_(meter), device_(device) {
    meter_.collective_began(device_);
  }
  ~CollectiveUnderWay() { meter_.collective_ended(device_); }
  CollectiveUnderWay(const CollectiveUnderWay&) = delete;
  CollectiveUnderWay& operator=(const CollectiveUnderWay&) = delete;

 private:
  ActivityMeter& meter_;
  const int device_;
};

}  // namespace kernbench::runtime
