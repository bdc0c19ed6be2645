#include "benches/figure/topology_diagram.h"

#include <catch2/catch.hpp>

#include "benches/figure/panel.h"
#include "test/benches/figure/svg_reader.h"
#include "test/support/small_topology.h"

namespace kernbench::benches::figure::topology_diagram_test {

namespace {

using test::count_texts;
using test::named;
using test::read_svg;
using test::SvgElement;
using test::SvgElements;

SvgElements drawn(const Topology& topology) {
  return read_svg(topology_diagram(topology));
}

SvgElements shipped(const std::string& name) {
  return drawn(Topology::load(KERNBENCH_ROOT "/topologies/" + name + ".yaml"));
}

bool is_key(const SvgElement& line) {
  return line.number("x2") - line.number("x1") == 32;  // the sample of a key
}

// Straight links of a colour, without the samples of the keys.
int count_lines(const SvgElements& elements, std::string_view colour) {
  int count = 0;
  for (const SvgElement& line : named(elements, "line")) {
    if (line.attributes.at("stroke") == colour && !is_key(line)) ++count;
  }
  return count;
}

std::size_t count_curves(const SvgElements& elements) {
  return named(elements, "path").size();
}

int count_boxes(const SvgElements& elements, std::string_view fill) {
  int count = 0;
  for (const SvgElement& box : named(elements, "rect")) count += box.attributes.at("fill") == fill;
  return count;
}

}  // namespace

TEST_CASE("a ring is drawn as one", "[figure][topology_diagram]") {
  const SvgElements elements = shipped("ring_1d_6");
  CHECK(count_boxes(elements, kSipFill) == 6);
  CHECK(count_curves(elements) == 6);
  CHECK(count_texts(elements, "SIP 5") == 1);
  CHECK(count_lines(elements, kSipColour) == 1);  // out of the IO chiplet
}

TEST_CASE("a torus has straight links and curves that wrap around", "[figure][topology_diagram]") {
  // 2 x 3: the wrap-around link of a row of two is the direct link.
  const SvgElements tall = shipped("torus_2d_2x3");
  CHECK(count_boxes(tall, kSipFill) == 6);
  CHECK(count_lines(tall, kSipColour) == 3 + 4 + 1);
  CHECK(count_curves(tall) == 2);
  const SvgElements wide = shipped("torus_2d_3x2");
  CHECK(count_lines(wide, kSipColour) == 4 + 3 + 1);
  CHECK(count_curves(wide) == 2);
  const SvgElements large = shipped("scale_64");
  CHECK(count_boxes(large, kSipFill) == 64);
  CHECK(count_lines(large, kSipColour) == 2 * 8 * 7 + 1);
  CHECK(count_curves(large) == 16);
}

TEST_CASE("a mesh does not wrap around", "[figure][topology_diagram]") {
  const SvgElements elements = shipped("mesh_2d_no_wrap_2x3");
  CHECK(count_lines(elements, kSipColour) == 3 + 4 + 1);
  CHECK(count_curves(elements) == 0);
}

TEST_CASE("two SIPs have one link, one has none", "[figure][topology_diagram]") {
  const SvgElements two = shipped("default");
  CHECK(count_boxes(two, kSipFill) == 2);
  CHECK(count_lines(two, kSipColour) == 1 + 1);
  CHECK(count_curves(two) == 0);
  Topology topology = test::round_topology(SipTopology::ring_1d, 1);
  CHECK(count_lines(drawn(topology), kSipColour) == 0);
}

TEST_CASE("of a large grid the first and the last are drawn", "[figure][topology_diagram]") {
  const SvgElements elements = shipped("scale_1024");
  CHECK(count_boxes(elements, kSipFill) == 25);
  CHECK(count_texts(elements, "1023") == 1);
  CHECK(count_texts(elements, "992") == 1);
  CHECK(count_texts(elements, "3") == 0);
  const SvgElements ring = drawn(test::round_topology(SipTopology::ring_1d, 100));
  CHECK(count_boxes(ring, kSipFill) == 5);
  CHECK(count_curves(ring) == 1);
}

TEST_CASE("a SIP has its cubes, UCIe links and the IO chiplet on its edge",
          "[figure][topology_diagram]") {
  for (const Edge edge : kEdges) {
    Topology topology = test::round_topology(SipTopology::ring_1d, 2, 1, 4, 2);
    topology.sip.io_edge = edge;
    const SvgElements elements = drawn(topology);
    INFO(name_of(edge));
    CHECK(count_boxes(elements, kCubeFill) == 8);
    const bool is_side = edge == Edge::west || edge == Edge::east;
    CHECK(count_lines(elements, kCubeColour) == 6 + 4 + (is_side ? 2 : 4));
    CHECK(count_texts(elements, "IO chiplet with IO_CPU") == 1);
  }
}

TEST_CASE("a cube has its PEs in the corners that have any", "[figure][topology_diagram]") {
  Topology topology = test::round_topology();
  topology.cube.corners = {"NE", "SW"};
  topology.cube.pe_per_corner = 3;
  const SvgElements elements = drawn(topology);
  CHECK(count_boxes(elements, kPeFill) == 6);
  const SvgElement first = test::text_element(elements, "PE 0");
  const SvgElement last = test::text_element(elements, "PE 5");
  CHECK(first.number("x") > last.number("x"));
  CHECK(first.number("y") < last.number("y"));
  topology.cube.pe_per_corner = 16;
  CHECK(count_boxes(drawn(topology), kPeFill) == 32);
}

TEST_CASE("the figures of the topology stand beside what they belong to",
          "[figure][topology_diagram]") {
  const SvgElements elements = shipped("default");
  for (const char* text :
       {"Topology default", "2 SIPs in a ring, 4 x 4 cubes of 8 PEs each",
        "SIP link, each way: 64 GB/s, 300 ns", "UCIe, each way: 512 GB/s, 16 ns",
        "to the host: 64 GB/s, 500 ns", "a PE's port, each way: 256 GB/s, 4 ns", "4 GiB",
        "2 × 51.2 GB/s", "at 90 %, 120 ns", "16 MiB", "32 × 32", "3.072 TFLOP/s", "128 lanes"}) {
    INFO(text);
    CHECK(count_texts(elements, text) == 1);
  }
  CHECK(count_texts(shipped("zero_overhead"), "UCIe, each way: unlimited, 0 ns") == 1);
}

}  // namespace kernbench::benches::figure::topology_diagram_test
