// Reads the records of a journal file one after the other, from any record on, forwards or backwards. Plain blocking
// reads of the page cache; one thread at a time. The descriptor is the caller's and outlives the reader.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "launcherd/output/journal_file.h"

namespace muster::launcherd::inline output {

class JournalReader {
 public:
  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

  // `name` is what errors call the file.
  JournalReader(int fd, std::string name, std::uint64_t position = 0)
      : fd_(fd), name_(std::move(name)), position_(position) {}

  // The record at position(), which moves behind it; valid until the next call. nullopt: there is no whole record
  // before `limit` or the end of the file; asking again later reads again. DATA_LOSS names the offset of the damage.
  base::Result<std::optional<JournalRecord>> next(std::uint64_t limit = kNoLimit);
  // The record that ends at position(), which moves to its begin; nullopt: this is the begin of the file.
  base::Result<std::optional<JournalRecord>> previous();

  std::uint64_t position() const { return position_; }

 private:
  // The bytes of the file from `begin` on, `size` of them or fewer at the end of the file, are in buffer_ afterwards.
  base::Status load(std::uint64_t begin, std::size_t size);
  std::string_view loaded(std::uint64_t begin, std::uint64_t end) const;
  base::Result<std::string_view> before(std::size_t size);  // the bytes that end at position_
  base::Status damaged(const base::Status& why) const;

  int fd_;
  std::string name_;
  std::uint64_t position_;
  std::uint64_t begin_ = 0;  // offset of buffer_ in the file
  std::string buffer_;
};

}  // namespace muster::launcherd::output
