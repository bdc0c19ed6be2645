#include "sim_engine/components/shared_tiles.h"

#include <iterator>
#include <utility>

#include "sim_engine/components/queue_memory.h"
#include "sim_engine/core/engine.h"

namespace kernbench::sim {

namespace {

void call(const Event& event) {
  event.function(event.object, event.argument);
}

PeLocation cube_of(const PeLocation& at) {
  return {at.sip, at.cube, 0};
}

}  // namespace

SharedTiles::SharedTiles(const Topology& topology, Fabric& fabric, const QueueMemory& queues)
    : topology_(topology),
      fabric_(fabric),
      queues_(queues),
      srams_(static_cast<std::size_t>(topology.system.sip_count * topology.cube_count())) {}

std::size_t SharedTiles::HashOfTile::operator()(const Tile* tile) const {
  constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15;
  std::uint64_t hash = tile->region.index;
  for (const auto part :
       {std::uint64_t{tile->region.generation}, tile->version,
        static_cast<std::uint64_t>(tile->elements.begin),
        static_cast<std::uint64_t>(tile->elements.columns),
        static_cast<std::uint64_t>(tile->elements.rows), static_cast<std::uint64_t>(tile->bytes)}) {
    hash = (hash ^ part) * kPrime;
    hash ^= hash >> 32;
  }
  return hash;
}

SharedTiles::Sram& SharedTiles::sram_of(const PeLocation& at) {
  return srams_[static_cast<std::size_t>(at.sip * topology_.cube_count() + at.cube)];
}

bool SharedTiles::bring(const Tile& tile, const PeLocation& to, const Event& ready) {
  const PeLocation cube = cube_of(to);
  Sram& sram = sram_of(cube);
  if (const auto found = sram.places.find(&tile); found != sram.places.end()) {
    Entry& entry = *found->second;
    sram.entries.splice(sram.entries.end(), sram.entries, found->second);
    entry.has_come ? call(ready) : entry.waiters.push_back(ready);
    return true;
  }
  if (!make_room(sram, cube, tile.bytes)) return false;
  Entry& entry = add(sram, tile);
  entry.cube = cube;
  entry.waiters.push_back(ready);
  const bool lies_here = cube_of(tile.home) == cube;
  const Event at_home = Engine::call<&SharedTiles::cross>(this, entry);
  if (lies_here || !bring(tile, tile.home, at_home)) read_from_hbm(entry);
  return true;
}

SharedTiles::Entry& SharedTiles::add(Sram& sram, const Tile& tile) {
  if (spare_.empty()) spare_.emplace_back();
  sram.entries.splice(sram.entries.end(), spare_, spare_.begin());
  Entry& added = sram.entries.back();
  added.tile = tile;
  added.has_come = false;
  add_place(sram, std::prev(sram.entries.end()));
  sram.held += tile.bytes;
  return added;
}

void SharedTiles::add_place(Sram& sram, Entries::iterator at) {
  if (spare_places_.empty()) {
    sram.places.emplace(&at->tile, at);
    return;
  }
  Places::node_type place = std::move(spare_places_.back());
  spare_places_.pop_back();
  place.key() = &at->tile;
  place.mapped() = at;
  sram.places.insert(std::move(place));
}

bool SharedTiles::make_room(Sram& sram, const PeLocation& at, Bytes bytes) {
  const Bytes capacity = topology_.cube.sram.capacity - queues_.sram_held(at);
  for (auto next = sram.entries.begin();
       next != sram.entries.end() && sram.held + bytes > capacity;) {
    const auto entry = next++;
    if (!entry->has_come) continue;
    sram.held -= entry->tile.bytes;
    spare_places_.push_back(sram.places.extract(&entry->tile));
    spare_.splice(spare_.begin(), sram.entries, entry);
  }
  return sram.held + bytes <= capacity;
}

void SharedTiles::read_from_hbm(Entry& entry) {
  count_read(entry.tile.bytes);
  const Path& path =
      fabric_.path({Endpoint::Kind::hbm, entry.tile.home}, {Endpoint::Kind::sram, entry.cube});
  fabric_.send(path, entry.tile.bytes, Engine::call<&SharedTiles::arrive>(this, entry));
}

void SharedTiles::cross(Entry& entry) {
  const Path& path = fabric_.path({Endpoint::Kind::sram, cube_of(entry.tile.home)},
                                  {Endpoint::Kind::sram, entry.cube});
  fabric_.send(path, entry.tile.bytes, Engine::call<&SharedTiles::arrive>(this, entry));
}

// Who waited may ask for other tiles at once, for which this one may have to go.
void SharedTiles::arrive(Entry& entry) {
  entry.has_come = true;
  std::vector<Event> waiters = std::move(called_);
  waiters.swap(entry.waiters);
  for (const Event& waiter : waiters) call(waiter);
  waiters.clear();
  called_ = std::move(waiters);
}

const Path& SharedTiles::path_to(const PeLocation& pe) {
  return fabric_.path({Endpoint::Kind::sram, cube_of(pe)}, {Endpoint::Kind::tcm, pe});
}

void SharedTiles::reset() {
  for (Sram& sram : srams_) sram = {};
}

}  // namespace kernbench::sim
