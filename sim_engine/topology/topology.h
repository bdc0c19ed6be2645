// The modelled system as plain data, immutable once loaded.  Knows nothing of the engine.

#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim_engine/base/units.h"
#include "sim_engine/faults/fault.h"

namespace kernbench {

// The network that joins the SIPs.  A SIP (system in package) is one device.
enum class SipTopology : std::uint8_t {
  ring_1d,
  torus_2d,
  mesh_2d_no_wrap,
  torus_3d,
  full_mesh,  // each to each
  switched,   // each to a switch, which joins any to any; in a file: switch
};

enum class Edge : std::uint8_t { north, east, south, west };
enum class Dataflow : std::uint8_t { output_stationary, weight_stationary, input_stationary };

inline constexpr std::array kSipTopologies = {SipTopology::ring_1d,         SipTopology::torus_2d,
                                              SipTopology::mesh_2d_no_wrap, SipTopology::torus_3d,
                                              SipTopology::full_mesh,       SipTopology::switched};
inline constexpr std::array kEdges = {Edge::north, Edge::east, Edge::south, Edge::west};
inline constexpr std::array kDataflows = {Dataflow::output_stationary, Dataflow::weight_stationary,
                                          Dataflow::input_stationary};

// Operations of PE_MATH that take equally long.
enum class MathKind : std::uint8_t {
  add,      // additions, subtractions, negation, absolute value, sums
  mul,      // products
  fma,      // a * b + c
  div,      // quotients
  compare,  // comparisons, maximum, minimum, clamp
  move,     // select, type conversion, transpose, constants and ramps
  exp,
  log,
  sqrt,
  rsqrt,
  sigmoid,
};

inline constexpr std::array kMathKinds = {MathKind::add,   MathKind::mul,     MathKind::fma,
                                          MathKind::div,   MathKind::compare, MathKind::move,
                                          MathKind::exp,   MathKind::log,     MathKind::sqrt,
                                          MathKind::rsqrt, MathKind::sigmoid};

// Energy is counted for units of these kinds: FLOPs of PE_GEMM by the width of its operands,
// operations of PE_MATH, and bytes that pass a port of a memory or a link (ADR-0268).
enum class EnergyUnit : std::uint8_t {
  gemm_f16,  // products of elements of 16 bits or less
  gemm_f32,  // products of wider ones
  math,
  tcm,
  sram,
  hbm,
  noc,  // a PE's port to it
  ucie,
  sip_link,
  host_link,
};

inline constexpr std::array kEnergyUnits = {
    EnergyUnit::gemm_f16, EnergyUnit::gemm_f32, EnergyUnit::math, EnergyUnit::tcm,
    EnergyUnit::sram,     EnergyUnit::hbm,      EnergyUnit::noc,  EnergyUnit::ucie,
    EnergyUnit::sip_link, EnergyUnit::host_link};

// True of a unit whose work is operations; else it is bytes.
constexpr bool counts_operations(EnergyUnit unit) {
  return unit <= EnergyUnit::math;
}

std::string_view name_of(SipTopology topology);
// True if SIPs stand in rows, so that a file gives w and h.
bool has_rows(SipTopology topology);
// True if any two SIPs are neighbours: at a switch, or joined each to each.
bool joins_all(SipTopology topology);
std::string_view name_of(Edge edge);
std::string_view name_of(Dataflow dataflow);
std::string_view name_of(MathKind kind);
std::string_view name_of(EnergyUnit unit);

// Describes one direction of a link; every link has two of them, one each way (full duplex).
struct LinkSpec {
  Bandwidth bandwidth;
  Time latency{0};

  friend bool operator==(const LinkSpec&, const LinkSpec&) = default;

  bool costs_time() const { return latency > Time{0} || !bandwidth.is_unlimited(); }
};

// The switch joins all SIPs if their topology is `switch`.
struct SwitchSpec {
  // All messages cross it: its bandwidth is that of all SIPs together.  Unlimited: non-blocking.
  LinkSpec core;
  // The unit that adds up messages of all SIPs, and sends the sum to each: the rate of its results.
  // nullopt: it has none.
  std::optional<LinkSpec> sums;

  friend bool operator==(const SwitchSpec&, const SwitchSpec&) = default;
};

struct SramSpec {
  Bytes capacity = 0;  // per cube
  Bandwidth bandwidth;
  Time latency{0};

  friend bool operator==(const SramSpec&, const SramSpec&) = default;
};

struct HbmSpec {
  int channels = 1;  // per cube
  // Slices of a cube's channels, whose addresses go round those of the slice; each is local to the
  // same number of PEs (ADR-0248).  0: one for each PE, or for each channel where they are fewer.
  int slices = 0;
  Bandwidth bandwidth;  // of one channel, at its peak
  Time latency{0};
  Bytes capacity = 0;  // per cube
  // Transfers get this share of the peak: refresh, turns between reading and writing, and closed
  // rows take the rest (ADR-0248).
  Share efficiency = {};
  // A write takes this time besides that of its bytes: the bus turns from reading to writing, and
  // back (ADR-0248).
  Time turn_around{0};

  friend bool operator==(const HbmSpec&, const HbmSpec&) = default;
};

struct TcmSpec {
  Bytes capacity = 0;   // per PE
  Bandwidth bandwidth;  // of each of its two ports for PE_DMA and messages: one reads, one writes
  Time latency{0};
  // PE_GEMM and PE_MATH have two ports each with this bandwidth, one to read and one to write.
  Bandwidth compute_bandwidth = {};

  friend bool operator==(const TcmSpec&, const TcmSpec&) = default;
};

// The cycles that a lane of PE_MATH takes for one element.
class MathCycles {
 public:
  MathCycles() { cycles_.fill(1); }
  int& operator[](MathKind kind) { return cycles_[static_cast<std::size_t>(kind)]; }
  int operator[](MathKind kind) const { return cycles_[static_cast<std::size_t>(kind)]; }

  friend bool operator==(const MathCycles&, const MathCycles&) = default;

 private:
  std::array<int, kMathKinds.size()> cycles_;
};

// The energy of each operation or byte, in femtojoules; 0: it is not counted.
class EnergySpec {
 public:
  std::int64_t& operator[](EnergyUnit unit) { return each_[static_cast<std::size_t>(unit)]; }
  std::int64_t operator[](EnergyUnit unit) const { return each_[static_cast<std::size_t>(unit)]; }

  friend bool operator==(const EnergySpec&, const EnergySpec&) = default;

 private:
  std::array<std::int64_t, kEnergyUnits.size()> each_{};
};

struct GemmSpec {
  int rows = 1;
  int columns = 1;
  Dataflow dataflow = Dataflow::output_stationary;
  Frequency clock;
  bool overlap = false;  // folds of a product follow each other while the array is filled
  int f8_per_cell = 1;   // products of elements of 8 bits that a cell adds up in a cycle

  friend bool operator==(const GemmSpec&, const GemmSpec&) = default;
};

// One level of nodes, of equally many SIPs that follow each other, and the network between them.
struct NodeLevel {
  int count = 1;  // in the next outer node, or in the machine
  // From a SIP to a network between all of these that holds up nobody, and back: a message from
  // node to node passes two.
  LinkSpec link;
  int sips_per_link = 1;  // that follow each other and share one
  // A message passes the links of the level inside on its way to these, and after them.
  bool through_inner = false;

  friend bool operator==(const NodeLevel&, const NodeLevel&) = default;
};

// The outermost level, and those inside.  SIPs of an innermost node alone are joined as
// Topology::System::topology says (ADR-0106).
struct NodesSpec : NodeLevel {
  std::vector<NodeLevel> inner;  // outer to inner

  friend bool operator==(const NodesSpec&, const NodesSpec&) = default;
};

// Links between SIPs that are unlike system.sip_link (ADR-0106).
struct UnlikeLinks {
  enum class Of : std::uint8_t {
    dimension,  // all along a dimension of the grid
    pair,       // between two neighbours
    sip,        // all of a SIP
  };
  Of of = Of::dimension;
  int first = 0;   // the dimension, of which x is 0, or the SIP
  int second = 0;  // the other SIP of a pair
  LinkSpec link;

  // "z", "sip0-sip5" or "sip3", as in a file.
  friend std::string to_string(const UnlikeLinks& links);
  friend bool operator==(const UnlikeLinks&, const UnlikeLinks&) = default;
};

struct Topology {
  std::string name;  // file name without folder and extension

  struct System {
    int sip_count = 1;
    int w = 1;  // of a node's grid; without a grid: its SIPs, and h = the innermost nodes
    int h = 1;
    int d = 1;  // of torus_3d alone
    SipTopology topology = SipTopology::ring_1d;
    // Between neighbouring SIPs.  In a dimension of size 2 the wrap-around link is the direct link:
    // two neighbours are joined by one pair of directed links, never by two.
    LinkSpec sip_link;
    // Neighbours have this number of links in parallel.  A PE's messages stay in order: they take
    // the link that is the PE's number in the SIP modulo this number.
    int links_per_pair = 1;
    std::vector<UnlikeLinks> unlike_links;  // of two that name a link, the later counts
    SwitchSpec network_switch;
    NodesSpec nodes;
    LinkSpec host_link;  // from the host to each SIP
    Time host_issue{0};  // the host's own time for a launch (ADR-0190)

    std::int64_t node_count() const;  // the innermost ones; 1: there are no nodes

    friend bool operator==(const System&, const System&) = default;
  } system;

  struct Sip {
    int cubes_w = 1;
    int cubes_h = 1;
    LinkSpec ucie;              // between neighbouring cubes, and between a cube and the IO chiplet
    Edge io_edge = Edge::west;  // the IO chiplet has a UCIe link to each cube on this edge
    Time io_cpu_dispatch{0};    // IO_CPU: per cube that a launch is passed on to
    LinkSpec io_hop;            // over the IO chiplet, one way in and one way out

    friend bool operator==(const Sip&, const Sip&) = default;
  } sip;

  struct Cube {
    std::vector<std::string> corners;  // of NW, NE, SW, SE
    int pe_per_corner = 1;
    LinkSpec noc;            // each PE's port to the cube's network
    LinkSpec corner;         // each corner's way to the rest of the cube, which its PEs share
    Time m_cpu_dispatch{0};  // M_CPU: per PE that a launch is passed on to
    SramSpec sram;
    HbmSpec hbm;

    friend bool operator==(const Cube&, const Cube&) = default;
  } cube;

  struct Pe {
    Time cpu_issue{0};           // PE_CPU: per command
    Time scheduler_dispatch{0};  // PE_SCHEDULER: from operands ready to the unit
    Time dma_setup{0};           // PE_DMA: per descriptor, in its channel
    Time mmu_latency{0};         // PE_MMU: per translated address
    Bytes mmu_page = 0;          // its page size
    int math_lanes = 1;          // PE_MATH: elements of 32 bits at a time
    int math_f16_per_lane = 1;   // elements of 16 bits or less that a lane takes in their place
    Frequency math_clock;
    MathCycles math_cycles;
    GemmSpec gemm;
    TcmSpec tcm;
    Time ipcq_latency{0};  // PE_IPCQ: per push and per pop

    friend bool operator==(const Pe&, const Pe&) = default;
  } pe;

  // The resources that collectives have to themselves beside users' kernels (ADR-0177, ADR-0120).
  struct Communication {
    Bytes packet = 0;   // after which a transfer gives way on a link; 0: it keeps the link
    Bytes scratch = 0;  // of each TCM that queues lead to, which users' kernels leave free

    friend bool operator==(const Communication&, const Communication&) = default;
  } communication;

  // Decides if the host's program waits for its launches (ADR-0190).
  struct Launch {
    bool blocking = false;  // a launch or collective returns to its rank when it is done

    friend bool operator==(const Launch&, const Launch&) = default;
  } launch;

  EnergySpec energy;

  std::vector<Fault> faults;  // what goes wrong in it, in the order in which it was given

  int cube_count() const { return sip.cubes_w * sip.cubes_h; }
  int pe_count() const { return static_cast<int>(cube.corners.size()) * cube.pe_per_corner; }

  // Reads and checks a topology file, or a shipped topology by its name: load("default").
  // ConfigError lists every error of the file at once, each as file:line:column (KB-Y...); so does
  // a file that cannot be read (KB-I001), with the shipped names if the path looks like one.
  static Topology load(const std::string& path);
  static Topology load(std::same_as<std::string_view> auto path) { return load(std::string(path)); }

  // Reads and checks a text; `name` stands for the file in messages.
  static Topology parse(std::string_view text, const std::string& name);

  // Throws ConfigError KB-Y037 if a program has changed this topology to one that no file could
  // describe.
  void check() const;

  friend bool operator==(const Topology&, const Topology&) = default;
};

// Returns the topology with `sip_count` of the same SIPs, in a ring of links as system.sip_link.
Topology in_ring(Topology topology, int sip_count);
// The same machine with so many SIPs: at its switch or each to each, in nodes as large as divide
// them, with those unlike links that are left; in a ring as in_ring(), if it is a grid of more or
// fewer.
Topology with_sips(Topology topology, int sip_count);

}  // namespace kernbench

namespace kernbench::sim {

// The memory that holds a queue's slots.
enum class BufferKind : std::uint8_t { tcm, sram, hbm };
inline constexpr std::array kBufferKinds = {BufferKind::tcm, BufferKind::sram, BufferKind::hbm};
std::string_view name_of(BufferKind kind);

// How PE_IPCQ waits, for a credit or the news of a post on the sender's side and for a message on
// the receiver's: it is woken, or it looks every so often.
enum class WaitPolicy : std::uint8_t { sleep, poll };
inline constexpr std::array kWaitPolicies = {WaitPolicy::sleep, WaitPolicy::poll};
std::string_view name_of(WaitPolicy policy);

struct IpcqParams {
  BufferKind buffer_kind = BufferKind::tcm;
  int depth = 4;                // slots
  Bytes slot_bytes = 16 << 10;  // capacity of a slot; 0: messages only go to posted receives
  WaitPolicy wait = WaitPolicy::sleep;
  Time poll_interval{100'000};  // REQUIRES: > 0
  // A protocol adds a time to each message, and only a share of the bytes on a link is data.
  Time message_latency{0};
  Share efficiency = {};
  // The slots lie in memory that Machine::reserve_for_queues() has set aside.
  bool is_reserved = false;
  // The first message's number; any value gives the same simulated times and results.
  std::uint32_t first_number = 0;

  // The bytes that a message occupies on links.
  Bytes on_the_wire(Bytes bytes) const {
    if (efficiency.is_whole()) return bytes;
    return (bytes * Share::kWhole + efficiency.millionths - 1) / efficiency.millionths;
  }

  // When an end that has waited since `began` notices what arrived at `there`: at once (sleep), or
  // at the next of began, began + poll_interval, began + 2 poll_interval, ... (poll).
  Time noticed(Time began, Time there) const;
};

}  // namespace kernbench::sim
