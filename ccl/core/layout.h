// The participants of a collective, how they are joined, and the queues between them.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ccl/core/algorithm.h"
#include "ccl/core/config.h"
#include "ccl/core/place.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tensor/tensor_options.h"
#include "runtime/tl/port_names.h"
#include "sim_engine/components/machine.h"

namespace kernbench::ccl {

// rank = SIP: each SIP has one participant for every PE that holds a shard (a lane), and neighbours
// are the SIPs' neighbours.  Their ports are called global_east, ..., since east, ... lead to the
// neighbouring cubes; with one_pe_per_sip, where the tensor lies on the first PE alone, they are
// called east, ...
//
// rank = PE (ccl.yaml's world_size; ADR-0024): the participants are the first world_size PEs, by
// SIP, cube and PE.  They are joined as the algorithm wants: a ring (east, west), a grid as square
// as possible, or the binomial tree (north to the parent, south[0], south[1], ... to the
// children).  If the algorithm is yet to be chosen, all of these exist.
class Layout {
 public:
  // Throws ConfigError KB-Y041 if there are too few PEs, or if they do not fill whole cubes or
  // SIPs.
  Layout(const Topology& topology, const Config& config);

  // rank = SIP: the participants are the members of a group, by group rank, on the grid that they
  // are rows and columns of, or a row in the order of the ring of all SIPs.  It closes as the
  // machine does, also where no link joins its ends.
  Layout(const Topology& topology, const Config& config, const std::vector<int>& sips);

  bool is_rank_pe() const { return is_rank_pe_; }
  int world_size() const { return static_cast<int>(places_.size()); }
  const Place& place(int participant) const {
    return places_[static_cast<std::size_t>(participant)];
  }

  // Returns a participant's PE (rank = PE), or the first PE of its SIP.
  const sim::PeLocation& pe(int participant) const {
    return pes_[static_cast<std::size_t>(participant)];
  }
  // Returns the participant that a PE belongs to.
  int find_participant(const sim::PeLocation& pe) const;

  // With rank = PE: returns the options that place a tensor {1, world_size * n} so that each
  // participant has n columns.
  TensorOptions placement(const TensorOptions& options) const;

  // The largest number of queues that lead into one PE.
  int most_queues() const { return most_queues_; }

  // Returns the port through which a PE sends to another; nullopt if no queue joins them.
  std::optional<tl::Port> port_between(const sim::PeLocation& from,
                                       const sim::PeLocation& to) const;

  // Makes the queues through which simulated SIPs send.  Throws DeviceError KB-M010 if they do not
  // fit into their memory, CollectiveMismatchError KB-C026 if a SIP stands for unlike ones.
  void install(sim::Machine& machine, const sim::IpcqParams& params) const;

  // The same at ports that no other queue has.  Returns the names of them that kernels are to know.
  using NamesByPe = std::map<sim::PeLocation, tl::PortNames>;
  NamesByPe install_beside(sim::Machine& machine, const sim::IpcqParams& params) const;

 private:
  // A queue from one participant to another.
  struct Edge {
    int from = 0;
    tl::Port out;
    int to = 0;
    tl::Port in;
  };

  // `at_node` has the participant at each node of the grid.
  void lay_out_sips(const sim::Grid& sips, std::vector<int> at_node);
  void lay_out_pes(int count);
  void join_grid(const sim::Grid& grid, bool global, int port_index);
  void join_ring(const sim::Grid& grid, bool global);
  void join_pe_ring(int port_index);
  void join_pe_tree(int port_index);
  bool wants(Neighbours neighbours) const;
  void add_tree_of_grid(const sim::Grid& grid, bool global);
  void connect(int from, tl::Port out, int to, tl::Port in) {
    first_edge_.try_emplace({from, to}, edges_.size());
    edges_.push_back({from, out, to, in});
  }
  // Calls visit(ends) for every queue.
  template <class Visit>
  void for_each_queue(const Visit& visit) const;
  template <class Visit>
  void for_each_queue_of_cubes(const Visit& visit) const;
  int count_queues() const;

  const Topology topology_;
  const Participants participants_;
  const std::vector<Neighbours> wanted_;
  bool is_rank_pe_ = false;
  std::vector<int> at_node_;          // of the grid: the participant
  std::vector<Place> places_;         // by participant
  std::vector<sim::PeLocation> pes_;  // by participant
  std::vector<Edge> edges_;
  std::map<std::pair<int, int>, std::size_t> first_edge_;  // by its ends
  int most_queues_ = 0;
};

}  // namespace kernbench::ccl
