// One folder of a host into which files are staged before a job starts (--stage). Blocking disk work; one thread at a
// time.
//
// Nothing is written outside of the folder: names are relative and without "..", and no link below it is followed. A
// file is written beside its place and renamed over it when it is whole, so that whoever reads it sees the old or the
// new one. What is unchanged is not touched. Names of half-written files are random: several stagings, of one host or
// of several, may write into one folder at once, and each file is that of one of them.
//
// Programs run from this folder, so no other user may write into it (base/trusted_folder.h). One that breaks this rule
// is opened and marked, because it may be the source itself; look, write and keep then return PERMISSION_DENIED.
// Folders that are made below it are writable for their owner only, whatever the mode of the source.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline stage {

struct StageItem {
  enum class Kind { kFile, kFolder, kLink };
  std::string path{};  // below the folder, as a/b
  Kind kind = Kind::kFile;
  unsigned mode = 0644;       // permissions alone
  std::uint64_t size = 0;     // of a file
  std::int64_t mtime_ns = 0;  // of a file
  std::string target{};       // of a link
};

enum class StageVerdict {
  kRight,      // nothing is to be sent
  kContent,    // the content is needed
  kUncertain,  // there is a file of this size with another time: `digest` says what is in it
};

struct StageLook {
  StageVerdict verdict = StageVerdict::kRight;
  std::string digest{};  // SHA-256
};

// True for a relative path of plain names: no empty one, no "." or "..", no NUL.
bool is_inner_path(std::string_view path);

class StageFolder {
 public:
  // Half-written files and marks that have not changed for so long are of stagings that were killed; they are taken
  // away where something is written beside them.
  static constexpr std::chrono::hours kAbandoned{24};

  // Makes `directory`, which is absolute, with its parents. PERMISSION_DENIED: another user could exchange a folder on
  // the way (open_folder_by_trusted_path).
  static base::Result<StageFolder> open(const std::string& directory, std::chrono::seconds abandoned = kAbandoned);
  StageFolder(StageFolder&&) = default;
  StageFolder& operator=(StageFolder&&) = delete;  // what a half-written file is named after stays the same
  StageFolder(const StageFolder&) = delete;
  StageFolder& operator=(const StageFolder&) = delete;
  // Takes the mark away, and a file that is half written.
  ~StageFolder();

  // A file of that name, by which another host sees that this folder is on a file system that both have. On one that
  // is read-only there is none: each host compares for itself, and what differs is an error of write.
  base::Status mark(const std::string& name);
  base::Result<std::vector<std::string>> marks(const std::string& prefix) const;

  // What is there of it. Folders and links are made at once. CANCELLED: `stop` became true while a file was read.
  base::Result<StageLook> look(const StageItem& item, const std::atomic<bool>* stop = nullptr);
  // The next piece of a file's content, from offset 0 on; with `last` it gets its place.
  base::Status write(const StageItem& item, std::uint64_t offset, std::string_view piece, bool last);
  // Its content is right after all.
  base::Status keep(const StageItem& item);

 private:
  StageFolder(std::string directory, base::UniqueFd fd, base::Status trust, std::chrono::seconds abandoned);

  base::Result<base::UniqueFd> parent_of(const StageItem& item, bool make) const;
  base::Status close_to_others(int folder, const std::string& path) const;
  base::Status make_folder(const StageItem& item) const;
  base::Status make_link(const StageItem& item);
  base::Status begin(const StageItem& item);
  void drop_half();
  void sweep(int parent, const StageItem& item);
  void remove_abandoned(int parent, std::string_view prefix) const;
  base::Status failed(int errno_value, std::string_view what, const StageItem& item) const;

  std::string directory_;
  base::UniqueFd fd_;
  base::Status trust_;  // why nothing is staged into this folder
  std::string mark_{};
  std::chrono::seconds abandoned_;
  std::string half_name_;          // beside the place of a file that is being written
  std::set<std::string> swept_{};  // folders below this one
  // Of the file that is being written.
  std::string half_path_{};
  base::UniqueFd half_parent_{};
  base::UniqueFd half_{};
  std::uint64_t half_size_ = 0;
};

}  // namespace muster::agent::stage
