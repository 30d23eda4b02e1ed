#include "launcherd/output/journal_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace muster::launcherd::inline output {
namespace {

constexpr std::size_t kBlock = 256 * 1024;

}  // namespace

base::Status JournalReader::load(std::uint64_t begin, std::size_t size) {
  buffer_.resize(size);
  begin_ = begin;
  std::size_t got = 0;
  while (got < size) {
    const ssize_t now = pread(fd_, buffer_.data() + got, size - got, static_cast<off_t>(begin + got));
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) {
      const int problem = errno;
      buffer_.clear();
      return base::errno_error(problem, "read " + name_);
    }
    if (now == 0) break;
    got += static_cast<std::size_t>(now);
  }
  buffer_.resize(got);
  return base::ok_status();
}

// Returns the part of [begin, end) that the buffer holds, from `begin` on.
std::string_view JournalReader::loaded(std::uint64_t begin, std::uint64_t end) const {
  if (begin < begin_ || begin >= begin_ + buffer_.size()) return {};
  return std::string_view(buffer_).substr(begin - begin_, end - begin);
}

base::Status JournalReader::damaged(const base::Status& why) const {
  return base::data_loss("{} is damaged at byte {}: {}", name_, position_, why.message());
}

base::Result<std::optional<JournalRecord>> JournalReader::next(std::uint64_t limit) {
  if (position_ >= limit) return std::optional<JournalRecord>();
  std::size_t asked_for = 0;
  for (;;) {
    const auto parse = parse_journal_record(loaded(position_, limit));
    if (!parse.ok()) return damaged(parse.status());
    if (parse->is_whole) {
      position_ += parse->size;
      return std::optional(parse->record);
    }
    if (asked_for >= parse->size) break;  // the file ends here for now
    if (limit - position_ < parse->size) break;
    asked_for = std::max(kBlock, parse->size);
    MUSTER_RETURN_IF_ERROR(load(position_, std::min<std::uint64_t>(asked_for, limit - position_)));
  }
  buffer_.clear();
  return std::optional<JournalRecord>();
}

base::Result<std::string_view> JournalReader::before(std::size_t size) {
  if (position_ >= size) {
    const std::uint64_t begin = position_ - size;
    if (loaded(begin, position_).size() < size) {
      const std::uint64_t block = std::min<std::uint64_t>(std::max(kBlock, size), position_);
      MUSTER_RETURN_IF_ERROR(load(position_ - block, block));
    }
    const std::string_view bytes = loaded(begin, position_);
    if (bytes.size() == size) return bytes;
  }
  return damaged({base::Code::kDataLoss, "no record of an output journal ends here"});
}

base::Result<std::optional<JournalRecord>> JournalReader::previous() {
  if (position_ == 0) return std::optional<JournalRecord>();
  MUSTER_ASSIGN_OR_RETURN(const std::string_view trailer, before(kJournalTrailerSize));
  const auto size = parse_journal_trailer(trailer);
  if (!size.ok()) return damaged(size.status());
  MUSTER_ASSIGN_OR_RETURN(const std::string_view bytes, before(*size));
  const auto parse = parse_journal_record(bytes);
  if (!parse.ok()) return damaged(parse.status());
  if (!parse->is_whole || parse->size != *size) {
    return damaged({base::Code::kDataLoss, "the record that ends here has a different length at its beginning"});
  }
  position_ -= *size;
  return std::optional(parse->record);
}

}  // namespace muster::launcherd::output
