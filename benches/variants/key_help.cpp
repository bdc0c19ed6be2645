#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>

#include "benches/variants/keys.h"

namespace kernbench::benches::variants {

namespace {

struct Help {
  std::string_view path;
  std::string_view text;
};

constexpr Help kTopology[] = {
    {"system.sips.count", "devices"},
    {"system.sips.topology", "how they are joined"},
    {"system.sips.w", "columns of the grid of SIPs"},
    {"system.sips.h", "rows of the grid of SIPs"},
    {"system.sips.d", "layers of the grid of SIPs"},
    {"system.sip_link.bandwidth", "between neighbouring SIPs, each way"},
    {"system.sip_link.latency", "between neighbouring SIPs"},
    {"system.sip_link.count", "links to each neighbour, or to the switch, which share messages"},
    {"system.sip_links.NAME.bandwidth", "of links unlike the others: along z, sip0-sip1, sip3"},
    {"system.sip_links.NAME.latency", "of such links"},
    {"system.nodes.count", "nodes, whose SIPs alone are joined so"},
    {"system.nodes.link.bandwidth", "from SIPs to the network between nodes, each way"},
    {"system.nodes.link.latency", "to or from that network"},
    {"system.nodes.sips_per_link", "SIPs in a row that share such a link"},
    {"system.nodes.through_inner", "true: messages pass the links of the level inside, then these"},
    {"system.switch.latency", "through the switch"},
    {"system.switch.bandwidth", "of all that passes the switch; below its links': oversubscribed"},
    {"system.switch.sums.bandwidth", "of the sums that the switch makes, for each SIP"},
    {"system.switch.sums.latency", "of a sum in the switch"},
    {"system.host_link.bandwidth", "from the host to each SIP, each way"},
    {"system.host_link.latency", "from the host to each SIP"},
    {"system.host_link.issue", "the host's own time for a launch"},
    {"sip.cube_mesh.w", "columns of the mesh of cubes"},
    {"sip.cube_mesh.h", "rows of the mesh of cubes"},
    {"sip.ucie.bandwidth", "between neighbouring cubes, each way"},
    {"sip.ucie.latency", "between neighbouring cubes"},
    {"sip.io_chiplet.edge", "the edge of the mesh at which the IO chiplet lies"},
    {"sip.io_chiplet.latency", "between the links of a SIP and its cubes; 0: they are cubes' own"},
    {"sip.io_chiplet.bandwidth", "between the IO chiplet and the cubes, each way"},
    {"sip.io_chiplet.dispatch", "to pass a launch on to a cube"},
    {"cube.pe_layout.corners", "of a cube, where PEs lie"},
    {"cube.pe_layout.pe_per_corner", "PEs in each of these corners"},
    {"cube.noc.bandwidth", "of a PE's port to the cube's network, each way"},
    {"cube.noc.latency", "through the cube's network"},
    {"cube.noc.corner.bandwidth", "of what a corner's PEs share to the rest of the cube, each way"},
    {"cube.noc.corner.latency", "between a corner and the rest of the cube"},
    {"cube.m_cpu.dispatch", "to pass a launch on to a PE"},
    {"cube.sram.capacity", "of a cube"},
    {"cube.sram.bandwidth", "of a cube"},
    {"cube.sram.latency", "of an access"},
    {"cube.hbm.channels", "of a cube"},
    {"cube.hbm.slices", "of these channels, each shared by so many PEs"},
    {"cube.hbm.bandwidth", "of one channel, at its peak"},
    {"cube.hbm.efficiency", "what transfers get of the peak"},
    {"cube.hbm.turn_around", "of a write, besides its bytes"},
    {"cube.hbm.latency", "of an access"},
    {"cube.hbm.capacity", "of a cube"},
    {"pe.cpu.issue", "of PE_CPU, to issue a command"},
    {"pe.scheduler.dispatch", "of PE_SCHEDULER, from operands that are ready to the unit"},
    {"pe.dma.setup", "of PE_DMA, for a descriptor"},
    {"pe.mmu.latency", "of PE_MMU, to translate an address"},
    {"pe.mmu.page", "the size of its pages"},
    {"pe.math.lanes", "of PE_MATH: elements at a time"},
    {"pe.math.f16_per_lane", "elements of 16 bits that a lane takes at a time"},
    {"pe.math.clock", "of PE_MATH"},
    {"pe.math.cycles.add", "for an element: addition, subtraction, negation, absolute value"},
    {"pe.math.cycles.mul", "for an element: product"},
    {"pe.math.cycles.fma", "for an element: a * b + c"},
    {"pe.math.cycles.div", "for an element: quotient"},
    {"pe.math.cycles.compare", "for an element: comparison, maximum, minimum"},
    {"pe.math.cycles.move", "for an element: selection, conversion, transpose"},
    {"pe.math.cycles.exp", "for an element: exp"},
    {"pe.math.cycles.log", "for an element: log"},
    {"pe.math.cycles.sqrt", "for an element: sqrt"},
    {"pe.math.cycles.rsqrt", "for an element: 1 / sqrt"},
    {"pe.math.cycles.sigmoid", "for an element: sigmoid"},
    {"pe.gemm.rows", "of the array"},
    {"pe.gemm.columns", "of the array"},
    {"pe.gemm.dataflow", "what stays in the array"},
    {"pe.gemm.clock", "of the array"},
    {"pe.gemm.overlap", "true: the next fold enters while the last one leaves"},
    {"pe.gemm.f8_per_cell", "products of elements of 8 bits that a cell adds up in a cycle"},
    {"pe.tcm.capacity", "of a PE"},
    {"pe.tcm.bandwidth", "of each of its two ports for PE_DMA and messages"},
    {"pe.tcm.compute_bandwidth", "of each of PE_GEMM's two ports, and of PE_MATH's"},
    {"pe.tcm.latency", "of an access"},
    {"pe.ipcq.latency", "of PE_IPCQ, to push or pop"},
    {"communication.packet", "between which short transfers and communication go ahead; 0: never"},
    {"communication.scratch", "of a PE, which users' kernels leave to collectives"},
    {"energy.gemm_f16", "of PE_GEMM, for a sum or product of elements of 16 bits or less"},
    {"energy.gemm_f32", "of PE_GEMM, for a sum or product of wider elements"},
    {"energy.math", "of PE_MATH, for a lane and cycle"},
    {"energy.tcm", "to read or write TCM"},
    {"energy.sram", "to read or write SRAM"},
    {"energy.hbm", "to read or write HBM"},
    {"energy.noc", "to pass a PE's port to the cube's network"},
    {"energy.ucie", "to pass a link between cubes, or to the IO chiplet"},
    {"energy.sip_link", "to pass a link between SIPs"},
    {"energy.host_link", "to pass the link to the host"},
    {"faults", "what goes wrong, such as rank=3 start=+50us"},
    {"launch.blocking", "true: launches and collectives return when they are done"},
};

// The same keys stand under `defaults` and in an algorithm's entry.
constexpr Help kCcl[] = {
    {"algorithm", "of all_reduce: one of `kernbench list`, or auto"},
    {"kernel", "the algorithm that an entry of ccl.yaml runs"},
    {"buffer_kind", "where queues lie"},
    {"depth", "slots of a queue"},
    {"slot", "what one slot holds"},
    {"eager", "messages up to this size need no posted receive"},
    {"wait", "of a PE, for a message or a credit"},
    {"poll_interval", "beside wait=poll"},
    {"n_elem", "what benches of collectives sweep"},
    {"world_size", "ranks are PEs, of the first so many; else a rank is a SIP"},
    {"participants", "of a SIP"},
    {"root", "of the tree over cubes"},
    {"neighbours", "how PEs that are ranks are joined; else as the algorithm wants it"},
};

constexpr Help kProtocol[] = {
    {"up_to", "the largest size that takes it, as nccl-tests counts"},
    {"start", "of a call, before its first message"},
    {"latency", "of each message"},
    {"hop", "of a message, for each link between SIPs that it passes"},
    {"efficiency", "what data are of the bytes on a link"},
};

constexpr Help kRule[] = {
    {"algorithm", "of the collective: one of `kernbench list`, or auto"},
    {"above", "the size above which it decides, as nccl-tests counts"},
    {"up_to", "the largest size for which it decides"},
    {"ranks", "of the groups for which it decides"},
    {"group", "description of the groups for which it decides"},
    {"protocol", "of its messages"},
};

std::span<const Help> find_table(KeyOwner owner, std::string_view path) {
  if (owner != KeyOwner::ccl) return kTopology;
  if (path.starts_with("protocols")) return kProtocol;
  if (path.starts_with("rules")) return kRule;
  return kCcl;
}

}  // namespace

std::string_view find_help(KeyOwner owner, std::string_view path) {
  const std::span<const Help> all = find_table(owner, path);
  std::string named;  // as in the table
  if (constexpr std::string_view kLinks = "system.sip_links."; path.starts_with(kLinks)) {
    named = fmt::format("{}NAME{}", kLinks, path.substr(path.rfind('.')));
    path = named;
  }
  // Nodes inside of nodes have the same keys.
  constexpr std::string_view kNodes = "system.nodes.";
  constexpr std::string_view kInner = "nodes.";
  if (path.starts_with(kNodes)) {
    path.remove_prefix(kNodes.size());
    while (path.starts_with(kInner)) path.remove_prefix(kInner.size());
    named = fmt::format("{}{}", kNodes, path);
    path = named;
  }
  if (owner == KeyOwner::ccl) path = path.substr(path.rfind('.') + 1);
  const auto found = std::ranges::find(all, path, &Help::path);
  return found == all.end() ? std::string_view() : found->text;
}

}  // namespace kernbench::benches::variants
