// Measures what each device does over time, from which a step's share of communication is
// computed.

#pragma once

#include <map>
#include <vector>

#include "runtime/simulation/intervals.h"
#include "runtime/simulation/results.h"
#include "sim_engine/base/units.h"
#include "sim_engine/core/engine.h"

namespace kernbench::runtime {

// Adds up times as kernels and collectives begin and end.  Each device needs a fixed number of
// sums, however long a run is.
//
// A kernel counts from its start on its PE to its end.  A collective counts from when its rank has
// called it, and the rank's earlier calls in the group are done, until the rank goes on: this
// includes its launches and the wait for ranks that come later.
class ActivityMeter {
 public:
  ActivityMeter(const sim::Engine& engine, int device_count)
      : engine_(engine), devices_(static_cast<std::size_t>(device_count)) {}

  // Keeps the intervals for computing() and between() from now on.
  void keep_intervals();

  void kernel_began(int device) {
    Device& state = counted(device);
    if (state.kernels++ == 0 && keeps_intervals_) state.computing.begin(engine_.now());
  }
  void kernel_ended(int device) {
    Device& state = counted(device);
    if (--state.kernels == 0 && keeps_intervals_) state.computing.end(engine_.now());
  }
  // `group`: the number of its process group.
  void collective_began(int device, int group);
  void collective_ended(int device, int group);

  // The device's activity since the simulation began.
  DeviceActivity of(int device) const;
  // The same, where only one group's collectives and messages count as communication.
  DeviceActivity of_group(int device, int group) const;

  // The intervals in which kernels of the program ran on the device, since keep_intervals().
  const Intervals& computing(int device) const {
    return devices_[static_cast<std::size_t>(device)].computing;
  }

  // The device's activity in [from, to).  REQUIRES: intervals are kept since `from` or longer, and
  // `to` is not in the future
  DeviceActivity between(int device, Time from, Time to) const;

  // Ends all counts, since the kernels and collectives under way have been dropped.
  void abandon();

 private:
  // A process group's communication on a device.
  struct Communication {
    DeviceActivity before;  // but that under way
    int under_way = 0;
    Time since{0};      // when the first of those under way began
    Time computing{0};  // what the device had computed then
  };
  struct Device {
    DeviceActivity before;  // up to `since`
    Time since{0};
    int kernels = 0;  // number under way
    int collectives = 0;
    Intervals computing;
    Intervals communicating;
    std::map<int, Communication> groups;
  };

  // `computing`: what the device has computed by now.
  DeviceActivity under_way(const Communication& group, Time computing) const;

  // Returns the device's sums, brought up to now.
  Device& counted(int device);

  const sim::Engine& engine_;
  bool keeps_intervals_ = false;
  std::vector<Device> devices_;
};

// Counts a collective of a device's rank as under way for as long as this object lives.
class CollectiveUnderWay {
 public:
  CollectiveUnderWay(ActivityMeter& meter, int device, int group)
      : meter_(meter), device_(device), group_(group) {
    meter_.collective_began(device_, group_);
  }
  ~CollectiveUnderWay() { meter_.collective_ended(device_, group_); }
  CollectiveUnderWay(const CollectiveUnderWay&) = delete;
  CollectiveUnderWay& operator=(const CollectiveUnderWay&) = delete;

 private:
  ActivityMeter& meter_;
  const int device_;
  const int group_;
};

}  // namespace kernbench::runtime
