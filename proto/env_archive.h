// The archive of an environment (--stage-env): what the launcher packs and an agent unpacks. Pure.
//
// An archive is kEnvMagic, then entries, then the entry kEnd. An entry is a header, its path, and `size` bytes of
// content. The paths of the source (kPrefix) come first, and each folder comes before its contents. The whole is
// compressed by Zstandard.
//
// The id names what the archive contains. It is a hash of all entries without the times of files, because a file that
// was only touched is the same file.
//
// Not tar: the agent would need a library, or the hosts a program. Its extensions for long names and for times are more
// code than this.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/sha256.h"
#include "base/status.h"

namespace muster::proto {

inline constexpr std::string_view kEnvMagic = "muster-env-1\n";
inline constexpr std::size_t kLongestEnvPath = 4096;
inline constexpr std::size_t kEnvIdSize = 32;  // hexadecimal digits

struct EnvEntry {
  enum class Kind : char { kPrefix = 'p', kFolder = 'd', kFile = 'f', kLink = 'l', kEnd = 'e' };
  Kind kind = Kind::kFile;
  std::uint32_t mode = 0;     // permission bits; set for a file and a folder
  std::int64_t mtime_ns = 0;  // set for a file
  std::uint64_t size = 0;     // bytes of the content: of the file, of the link's target, or of the prefix
  std::string path{};         // below the environment's folder; empty for a prefix and the end
};

std::string env_header(const EnvEntry& entry);  // with the path
bool is_env_id(std::string_view text);

// Computes the id from the entries in their order.
class EnvDigest {
 public:
  static base::Result<EnvDigest> begin();

  void add(EnvEntry entry);
  void add_content(std::string_view bytes) { hash_.add(bytes); }
  base::Result<std::string> finish();  // call it once, as the last call

 private:
  explicit EnvDigest(base::Sha256 hash) : hash_(std::move(hash)) {}

  base::Sha256 hash_;
};

// Reads an archive that arrives in pieces. The bytes may be damaged or forged: sizes are checked, paths are not.
// After an error it must not be used.
class EnvReader {
 public:
  // An error of an event ends add() with this error.
  struct Events {
    std::function<base::Status(const EnvEntry& entry)> begin;     // not called for kEnd
    std::function<base::Status(std::string_view bytes)> content;  // in pieces, which may be of any size
    std::function<base::Status(const EnvEntry& entry)> end;       // the content is complete
  };

  static base::Result<EnvReader> begin(Events events);

  // DATA_LOSS: this is no archive.
  base::Status add(std::string_view bytes);
  // Returns the id of what was read. DATA_LOSS: the archive is cut off. Call it once, as the last call.
  base::Result<std::string> finish();

 private:
  EnvReader(Events events, EnvDigest digest) : events_(std::move(events)), digest_(std::move(digest)) {}

  base::Status read_header();
  base::Status begin_entry();
  base::Status end_entry();

  Events events_;
  EnvDigest digest_;
  std::string head_;  // the bytes of the magic, or of the header and the path that are being read
  bool has_magic_ = false;
  bool is_in_content_ = false;
  bool is_complete_ = false;
  EnvEntry entry_;
  std::uint64_t left_ = 0;  // of the content
};

}  // namespace muster::proto
