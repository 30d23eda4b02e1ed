// JournalReader reads the records of a journal file one by one, forwards or backwards, from any record on.
// Thread: one at a time. Reads block on the page cache.
// Owner: the caller owns the descriptor, which must outlive the reader.
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

  // `name` names the file in errors.
  JournalReader(int fd, std::string name, std::uint64_t position = 0)
      : fd_(fd), name_(std::move(name)), position_(position) {}

  // Returns the record at position() and moves position() behind it. The record is valid until the next call. nullopt
  // if no whole record lies before `limit` or the end of the file. A later call tries again. DATA_LOSS names the
  // offset of the damage.
  base::Result<std::optional<JournalRecord>> next(std::uint64_t limit = kNoLimit);
  // Returns the record that ends at position() and moves position() to its beginning. nullopt at the beginning of the
  // file.
  base::Result<std::optional<JournalRecord>> previous();

  std::uint64_t position() const { return position_; }

 private:
  // Loads `size` bytes of the file from `begin` into buffer_, or fewer at the end of the file.
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
