#include "sim_engine/trace/command_log.h"

#include <algorithm>

namespace kernbench::sim {

std::string_view name_of(OpKind kind) {
  constexpr std::array<std::string_view, kOpKindCount> kNames = {
      "load", "store", "math", "send", "recv", "copy_in", "gemm", "composite"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::uint64_t digest(const OpRecord& record, std::uint32_t pes) {
  const std::uint64_t identity = static_cast<std::uint64_t>(record.kind) |
                                 static_cast<std::uint64_t>(record.dtype) << 8 |
                                 std::uint64_t{record.unit % pes} << 32;
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::uint64_t field) {
    hash = (hash ^ field) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;  // else the upper bits of a field never reach the lower ones
  };
  add(identity);
  add(static_cast<std::uint64_t>(record.start.count()));
  add(static_cast<std::uint64_t>(record.end.count()));
  add(static_cast<std::uint64_t>(record.bytes));
  add(static_cast<std::uint64_t>(record.element_count));
  return hash;
}

CommandLog::CommandLog(std::size_t limit) : limit_(limit) {}
CommandLog::~CommandLog() = default;

void CommandLog::append(const OpRecord& record) {
  if (size_ % kChunk == 0) add_chunk();
  chunks_.back().push_back(record);
  ++size_;
  ++counts_[static_cast<std::size_t>(record.kind)];
}

const OpRecord& CommandLog::operator[](std::size_t index) const {
  return chunks_[(index - first_) / kChunk][index % kChunk];
}

void CommandLog::add_chunk() {
  if (limit_ == 0 || chunks_.size() * kChunk < limit_ + kChunk) {
    chunks_.emplace_back().reserve(kChunk);
    return;
  }
  std::rotate(chunks_.begin(), chunks_.begin() + 1, chunks_.end());
  chunks_.back().clear();
  first_ += kChunk;
}

}  // namespace kernbench::sim
