#include "test/fuzz/shared_state.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

namespace kernbench::fuzz {

namespace {

constexpr std::size_t kMaxFinding = 1 << 14;
constexpr std::size_t kMaxHashes = 1 << 16;
constexpr std::size_t kMaxKept = 1 << 13;
constexpr std::size_t kKeptBytes = std::size_t{1} << 25;

}  // namespace

struct SharedState::Memory {
  Counters counters;
  std::size_t input_size = 0;
  std::size_t finding_size = 0;
  std::size_t hash_count = 0;
  std::size_t kept_count = 0;
  std::array<std::uint64_t, kMaxHashes> hashes;
  std::array<std::size_t, kMaxKept + 1> kept_begins;
  std::array<char, kMaxFinding> finding;
  std::array<char, kMaxInput> input;
  std::array<char, kKeptBytes> kept;
};

// The kernel hands out zeros, a page when it is touched.
SharedState::SharedState() {
  void* const memory = ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory to share with a child");
  memory_ = new (memory) Memory;
}

SharedState::~SharedState() {
  ::munmap(memory_, sizeof(Memory));
}

SharedState::Counters& SharedState::counters() {
  return memory_->counters;
}

void SharedState::set_input(std::string_view input) {
  memory_->input_size = std::min(input.size(), kMaxInput);
  std::memcpy(memory_->input.data(), input.data(), memory_->input_size);
}

std::string_view SharedState::input() const {
  return {memory_->input.data(), memory_->input_size};
}

void SharedState::set_finding(std::string_view text) {
  memory_->finding_size = std::min(text.size(), kMaxFinding);
  std::memcpy(memory_->finding.data(), text.data(), memory_->finding_size);
}

std::string_view SharedState::finding() const {
  return {memory_->finding.data(), memory_->finding_size};
}

// 0 marks a place that is free.
bool SharedState::is_new(std::uint64_t hash) {
  hash = std::max<std::uint64_t>(hash, 1);
  for (std::size_t at = hash % kMaxHashes;; at = (at + 1) % kMaxHashes) {
    std::uint64_t& place = memory_->hashes[at];
    if (place == hash || memory_->hash_count == kMaxHashes / 2) return false;
    if (place != 0) continue;
    place = hash;
    ++memory_->hash_count;
    return true;
  }
}

void SharedState::keep(std::string_view input) {
  const std::size_t begin = memory_->kept_begins[memory_->kept_count];
  if (memory_->kept_count == kMaxKept || input.size() > kKeptBytes - begin) return;
  std::memcpy(memory_->kept.data() + begin, input.data(), input.size());
  memory_->kept_begins[memory_->kept_count + 1] = begin + input.size();
  ++memory_->kept_count;
}

std::size_t SharedState::kept_count() const {
  return memory_->kept_count;
}

std::string_view SharedState::kept(std::size_t i) const {
  const std::size_t begin = memory_->kept_begins[i];
  return {memory_->kept.data() + begin, memory_->kept_begins[i + 1] - begin};
}

}  // namespace kernbench::fuzz
