#include "proto/env_archive.h"

#include <algorithm>
#include <utility>

#include "base/little_endian.h"
#include "base/strings.h"

namespace muster::proto {
namespace {

using base::Result;
using base::Status;

// kind, mode, mtime_ns, size, length of the path
constexpr std::size_t kModeAt = 1;
constexpr std::size_t kTimeAt = kModeAt + sizeof(std::uint32_t);
constexpr std::size_t kSizeAt = kTimeAt + sizeof(std::int64_t);
constexpr std::size_t kLengthAt = kSizeAt + sizeof(std::uint64_t);
constexpr std::size_t kHeaderSize = kLengthAt + sizeof(std::uint32_t);

std::size_t path_length(std::string_view header) {
  return base::get_little_endian<std::uint32_t>(header.data() + kLengthAt);
}

Status damaged(std::string_view what) {
  return base::data_loss("the packed environment is damaged: {}", what);
}

bool is_kind(char kind) {
  constexpr std::string_view kKinds = "pdfle";
  return kKinds.find(kind) != std::string_view::npos;
}

Status check(const EnvEntry& entry) {
  const bool has_path = entry.kind != EnvEntry::Kind::kPrefix && entry.kind != EnvEntry::Kind::kEnd;
  const bool has_content = entry.kind != EnvEntry::Kind::kFolder && entry.kind != EnvEntry::Kind::kEnd;
  if (has_path == entry.path.empty()) return damaged("an entry has a wrong path");
  if (!has_content && entry.size != 0) return damaged("an entry has a wrong size");
  const bool is_path = entry.kind == EnvEntry::Kind::kPrefix || entry.kind == EnvEntry::Kind::kLink;
  if (is_path && (entry.size == 0 || entry.size > kLongestEnvPath)) return damaged("a path has a wrong size");
  return base::ok_status();
}

}  // namespace

std::string env_header(const EnvEntry& entry) {
  std::string header(kHeaderSize, '\0');
  header[0] = static_cast<char>(entry.kind);
  base::put_little_endian(header.data() + kModeAt, entry.mode);
  base::put_little_endian(header.data() + kTimeAt, entry.mtime_ns);
  base::put_little_endian(header.data() + kSizeAt, entry.size);
  base::put_little_endian(header.data() + kLengthAt, static_cast<std::uint32_t>(entry.path.size()));
  return header + entry.path;
}

bool is_env_id(std::string_view text) {
  return text.size() == kEnvIdSize && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<EnvDigest> EnvDigest::begin() {
  MUSTER_ASSIGN_OR_RETURN(base::Sha256 hash, base::Sha256::begin());
  return EnvDigest(std::move(hash));
}

void EnvDigest::add(EnvEntry entry) {
  entry.mtime_ns = 0;
  hash_.add(env_header(entry));
}

Result<std::string> EnvDigest::finish() {
  MUSTER_ASSIGN_OR_RETURN(const std::string hash, hash_.finish());
  return base::hex_of(hash).substr(0, kEnvIdSize);
}

Result<EnvReader> EnvReader::begin(Events events) {
  MUSTER_ASSIGN_OR_RETURN(EnvDigest digest, EnvDigest::begin());
  return EnvReader(std::move(events), std::move(digest));
}

Status EnvReader::add(std::string_view bytes) {
  while (!bytes.empty()) {
    if (is_complete_) return damaged("bytes follow its end");
    if (is_in_content_) {
      const std::string_view piece = bytes.substr(0, std::min<std::uint64_t>(left_, bytes.size()));
      bytes.remove_prefix(piece.size());
      left_ -= piece.size();
      digest_.add_content(piece);
      MUSTER_RETURN_IF_ERROR(events_.content(piece));
      if (left_ == 0) MUSTER_RETURN_IF_ERROR(end_entry());
      continue;
    }
    const std::size_t wanted = !has_magic_                  ? kEnvMagic.size()
                               : head_.size() < kHeaderSize ? kHeaderSize
                                                            : kHeaderSize + path_length(head_);
    const std::string_view piece = bytes.substr(0, wanted - head_.size());
    head_ += piece;
    bytes.remove_prefix(piece.size());
    if (head_.size() == wanted) MUSTER_RETURN_IF_ERROR(read_header());
  }
  return base::ok_status();
}

Status EnvReader::read_header() {
  if (!has_magic_) {
    if (head_ != kEnvMagic) return damaged("it begins with other bytes");
    has_magic_ = true;
    head_.clear();
    return base::ok_status();
  }
  if (!is_kind(head_[0])) return damaged("an entry of an unknown kind");
  if (path_length(head_) > kLongestEnvPath) return damaged("a path is too long");
  if (head_.size() < kHeaderSize + path_length(head_)) return base::ok_status();  // the path follows
  entry_ = {.kind = static_cast<EnvEntry::Kind>(head_[0]),
            .mode = base::get_little_endian<std::uint32_t>(head_.data() + kModeAt),
            .mtime_ns = base::get_little_endian<std::int64_t>(head_.data() + kTimeAt),
            .size = base::get_little_endian<std::uint64_t>(head_.data() + kSizeAt),
            .path = head_.substr(kHeaderSize)};
  head_.clear();
  return begin_entry();
}

Status EnvReader::begin_entry() {
  MUSTER_RETURN_IF_ERROR(check(entry_));
  digest_.add(entry_);
  if (entry_.kind == EnvEntry::Kind::kEnd) {
    is_complete_ = true;
    return base::ok_status();
  }
  MUSTER_RETURN_IF_ERROR(events_.begin(entry_));
  left_ = entry_.size;
  is_in_content_ = true;
  return left_ == 0 ? end_entry() : base::ok_status();
}

Status EnvReader::end_entry() {
  is_in_content_ = false;
  return events_.end(entry_);
}

Result<std::string> EnvReader::finish() {
  if (!is_complete_) return damaged("it is cut off");
  return digest_.finish();
}

}  // namespace muster::proto
