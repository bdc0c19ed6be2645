// PKWARE's APPNOTE.TXT, sections 4.3.7 (local header), 4.3.12 (central directory) and 4.3.16 (its
// end).

#include "runtime/nn/zip_archive.h"

#include <fmt/format.h>

#include <boost/crc.hpp>
#include <cstdint>
#include <limits>

#include "sim_engine/base/error.h"
#include "sim_engine/base/visible_text.h"

namespace kernbench::nn {

namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kDirectoryEntry = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kEntryBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::uint16_t kVersion = 20;
constexpr std::uint16_t kFirstDay = 0x21;  // 1980-01-01: equal states give equal files

std::uint32_t crc32(std::string_view bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

// Appends numbers in little-endian order.
template <class... Numbers>
void append(std::string& to, Numbers... numbers) {
  const auto append_one = [&](auto number) {
    for (std::size_t i = 0; i < sizeof(number); ++i) {
      to += static_cast<char>(static_cast<std::uint64_t>(number) >> 8 * i & 0xff);
    }
  };
  (append_one(numbers), ...);
}

// Writes the fields from "version needed" to "length of extra", which are the same in both headers.
void append_common(std::string& to, const ArchivedFile& file) {
  const auto& [name, bytes] = file;
  const auto size = static_cast<std::uint32_t>(bytes.size());
  append(to, kVersion, std::uint16_t{0}, std::uint16_t{0}, std::uint16_t{0}, kFirstDay,
         crc32(bytes), size, size, static_cast<std::uint16_t>(name.size()), std::uint16_t{0});
}

[[noreturn]] void refuse(std::string_view path, std::string_view problem) {
  throw IoError("KB-I013", "'{}' {}", visible(path), problem);
}

// Numbers of an archive, whose offsets may be wrong.
class Reader {
 public:
  Reader(std::string_view archive, std::string_view path) : archive_(archive), path_(path) {}

  template <class Number>
  Number at(std::size_t offset) const {
    const std::string_view bytes = part(offset, sizeof(Number));
    Number number = 0;
    for (std::size_t i = 0; i < sizeof(Number); ++i) {
      number = static_cast<Number>(
          number | static_cast<Number>(static_cast<unsigned char>(bytes[i])) << 8 * i);
    }
    return number;
  }
  std::string_view part(std::size_t offset, std::size_t size) const {
    if (offset > archive_.size() || size > archive_.size() - offset) {
      refuse(path_, "ends too early: it is damaged");
    }
    return archive_.substr(offset, size);
  }
  // Throws unless this number stands there.
  void expect(std::size_t offset, std::uint32_t signature) const {
    if (at<std::uint32_t>(offset) != signature)
      refuse(path_,
             "is damaged: its parts are not where "
             "its directory says");
  }

 private:
  std::string_view archive_;
  std::string_view path_;
};

std::size_t find_end(std::string_view archive, std::string_view path) {
  std::string signature;
  append(signature, kEnd);
  const std::size_t end = archive.rfind(signature);
  if (end == std::string_view::npos) {
    refuse(path, "is no .npz file: save() and numpy.savez() write those");
  }
  return end;
}

}  // namespace

std::string zip_archive(const std::vector<ArchivedFile>& files, std::string_view path) {
  std::string archive;
  std::string directory;
  for (const ArchivedFile& file : files) {
    const auto offset = static_cast<std::uint32_t>(archive.size());
    append(archive, kLocalHeader);
    append_common(archive, file);
    archive += file.first + file.second;
    append(directory, kDirectoryEntry, kVersion);
    append_common(directory, file);
    append(directory, std::uint16_t{0}, std::uint16_t{0}, std::uint16_t{0}, std::uint32_t{0},
           offset);
    directory += file.first;
  }
  const std::uint64_t all = archive.size() + directory.size();
  const auto count = static_cast<std::uint16_t>(files.size());
  if (all > std::numeric_limits<std::uint32_t>::max() || count != files.size()) {
    throw IoError("KB-I010",
                  "'{}' cannot be written: {} B and {} entries are more than 4 GiB or 65535; save "
                  "parts of the model",
                  visible(path), all, files.size());
  }
  const auto begin = static_cast<std::uint32_t>(archive.size());
  archive += directory;
  append(archive, kEnd, std::uint16_t{0}, std::uint16_t{0}, count, count,
         static_cast<std::uint32_t>(directory.size()), begin, std::uint16_t{0});
  return archive;
}

std::vector<ArchivedFile> files_of_zip_archive(std::string_view archive, std::string_view path) {
  const Reader read(archive, path);
  const std::size_t end = find_end(archive, path);
  std::size_t entry = read.part(end, kEndBytes).empty() ? 0 : read.at<std::uint32_t>(end + 16);
  std::vector<ArchivedFile> files;
  for (int i = read.at<std::uint16_t>(end + 10); i > 0; --i) {
    read.expect(entry, kDirectoryEntry);
    const std::size_t name_size = read.at<std::uint16_t>(entry + 28);
    const std::string_view name = read.part(entry + kEntryBytes, name_size);
    if (read.at<std::uint16_t>(entry + 10) != 0) {
      refuse(path, fmt::format("has compressed entries, as '{}': write it with numpy.savez",
                               visible(name)));
    }
    const std::size_t local = read.at<std::uint32_t>(entry + 42);
    read.expect(local, kLocalHeader);
    const std::size_t begin = local + kLocalBytes + read.at<std::uint16_t>(local + 26) +
                              read.at<std::uint16_t>(local + 28);
    const std::string_view bytes = read.part(begin, read.at<std::uint32_t>(entry + 24));
    if (crc32(bytes) != read.at<std::uint32_t>(entry + 16)) {
      refuse(path, fmt::format("is damaged: the sum of '{}' is wrong", visible(name)));
    }
    files.emplace_back(name, bytes);
    entry += kEntryBytes + name_size + read.at<std::uint16_t>(entry + 30) +
             read.at<std::uint16_t>(entry + 32);
  }
  return files;
}

}  // namespace kernbench::nn
