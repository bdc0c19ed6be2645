// Tiles of matrices that several PEs read, in the SRAM of cubes.
//
// Models:      a tile is read from HBM once, into the SRAM of the cube where it lies.  The SRAM of
//              another cube takes it from there, and each PE takes it from the SRAM of its own
//              cube. It stays until its place is needed for another one: those go first that nobody
//              has asked for the longest.  A tile of a region that was written since is read again.
// Not modeled: the time to look a tile up.
// Room:        queues' slots come first.  A tile that finds no room, since all tiles there are
// under
//              way, goes past this SRAM.

#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "sim_engine/components/fabric.h"
#include "sim_engine/core/event_queue.h"
#include "sim_engine/topology/topology.h"
#include "sim_engine/values/device_buffer.h"
#include "sim_engine/values/element_range.h"

namespace kernbench::sim {

class QueueMemory;

class SharedTiles {
 public:
  struct Tile {
    RegionId region;
    std::uint64_t version = 0;  // changes with each store to what it has
    ElementRange elements;      // the first of its elements, which may lie in several regions
    PeLocation home;
    Bytes bytes = 0;

    friend bool operator==(const Tile&, const Tile&) = default;
  };

  // REQUIRES: all outlive this
  SharedTiles(const Topology& topology, Fabric& fabric, const QueueMemory& queues);

  // Calls `ready` when the tile is in the SRAM of this PE's cube: within this call if it is there.
  // Returns false if it finds no room: then `ready` is not called, and the PE takes it from HBM.
  bool bring(const Tile& tile, const PeLocation& to, const Event& ready);

  // The way from the SRAM to a PE of its cube.
  const Path& path_to(const PeLocation& pe);

  // A tile that has found no room is read past the SRAM.
  void count_read(Bytes bytes) { bytes_read_ += bytes; }

  // Bytes that shared tiles have taken from HBM so far.
  Bytes bytes_read() const { return bytes_read_; }

  // Forgets all tiles, after a run that failed.
  void reset();

 private:
  struct Entry {
    Tile tile;
    PeLocation cube;
    bool has_come = false;
    std::vector<Event> waiters;
  };
  using Entries = std::list<Entry>;  // addresses stay
  struct HashOfTile {
    std::size_t operator()(const Tile* tile) const;
  };
  struct IsSameTile {
    bool operator()(const Tile* a, const Tile* b) const { return *a == *b; }
  };
  using Places = std::unordered_map<const Tile*, Entries::iterator, HashOfTile, IsSameTile>;
  struct Sram {
    Bytes held = 0;
    Entries entries;  // the last asked for is last
    // Keys are the entries' own tiles.  It is never iterated.
    Places places;
  };

  Sram& sram_of(const PeLocation& at);
  Entry& add(Sram& sram, const Tile& tile);
  void add_place(Sram& sram, Entries::iterator at);
  bool make_room(Sram& sram, const PeLocation& at, Bytes bytes);
  void read_from_hbm(Entry& entry);
  void cross(Entry& entry);
  void arrive(Entry& entry);

  const Topology& topology_;
  Fabric& fabric_;
  const QueueMemory& queues_;
  std::vector<Sram> srams_;  // by SIP and cube
  // Entries that have gone, their places and the waiters called last: the next ones use the memory.
  Entries spare_;
  std::vector<Places::node_type> spare_places_;
  std::vector<Event> called_;
  Bytes bytes_read_ = 0;
};

}  // namespace kernbench::sim
