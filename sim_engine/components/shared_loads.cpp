// Loads of tiles that come by way of SharedTiles.

#include <variant>

#include "sim_engine/components/pe_scheduler.h"

namespace kernbench::sim {

// The tile is asked for when the descriptor is set up and its pages are translated.
void PeScheduler::load_shared(Command& command, const work::Load& load) {
  const Time start = reserve_dma(kLoad, command);
  const Time at = start + services_.topology.pe.dma_setup + translation_time(load);
  services_.engine.schedule_after(cause_of_service(start, at, Cause::dma),
                                  at - services_.engine.now(),
                                  Engine::call<&PeScheduler::ask_for_tile>(this, command));
}

void PeScheduler::ask_for_tile(Command& command) {
  work::Load& load = std::get<work::Load>(command.work);
  SharedTiles& tiles = services_.shared_tiles;
  const Bytes read_before = tiles.bytes_read();
  load.asked = services_.engine.now();
  const SharedTiles::Tile tile{load.buffer.region, count_writes(services_.memory, load),
                               load.elements, load.buffer.home, command.bytes};
  const bool comes =
      tiles.bring(tile, location_, Engine::call<&PeScheduler::take_tile>(this, command));
  if (!comes) tiles.count_read(command.bytes);
  load.from_hbm = tiles.bytes_read() - read_before;
  if (comes) return;
  const Path& path = load_path(load.buffer.home);
  services_.fabric.send(path, command.bytes, end_of_transfer(path, command));
}

void PeScheduler::take_tile(Command& command) {
  const Time waited = services_.engine.now() - std::get<work::Load>(command.work).asked;
  if (waited > Time{0}) command.issuer->waits()[WaitCause::hbm] += waited;
  const Path& path = shared_tile_path();
  services_.fabric.send(path, command.bytes, end_of_transfer(path, command));
}

const Path& PeScheduler::shared_tile_path() {
  if (shared_tile_path_ == nullptr) shared_tile_path_ = &services_.shared_tiles.path_to(location_);
  return *shared_tile_path_;
}

}  // namespace kernbench::sim
