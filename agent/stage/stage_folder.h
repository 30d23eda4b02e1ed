// One folder of a host into which files are staged before a job starts (--stage).
//
// Thread: one at a time. Calls do disk work and block.
//
// Safety: nothing is written outside of the folder. Names are relative and without "..", and no link below the folder
// is followed.
// Atomicity: a file is written under another name in the same folder and renamed when it is complete. So a reader
// sees the old or the new file. Unchanged files are not touched.
// Concurrency: several stagings, of one host or of several, may write into one folder at once. Names of half-written
// files are random, so each finished file comes from one staging.
//
// Trust: programs run from this folder, so no other user may be able to write into it (base/trusted_folder.h). A
// folder that breaks this rule is still opened and marked, because it may be the source itself. But check(), write()
// and keep() then return PERMISSION_DENIED.
// Only the owner can write to folders that are made below it, whatever the mode of the source is.
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
  std::string path{};  // path below the folder, like a/b
  Kind kind = Kind::kFile;
  unsigned mode = 0644;       // permission bits only
  std::uint64_t size = 0;     // set for a file
  std::int64_t mtime_ns = 0;  // set for a file
  std::string target{};       // set for a link
};

enum class StageVerdict {
  kRight,    // nothing needs to be sent
  kContent,  // the content must be sent
  // The host has a file of this size, but with another modification time. `digest` identifies its content.
  kUncertain,
};

struct StageCheck {
  StageVerdict verdict = StageVerdict::kRight;
  std::string digest{};  // SHA-256
};

// True for a relative path of plain names. No name is empty, "." or "..", and the path contains no NUL.
bool is_inner_path(std::string_view path);

// Sets the time of the last modification.
base::Status set_time(int fd, std::int64_t mtime_ns);

class StageFolder {
 public:
  // Half-written files and marks that have not changed for this long belong to stagings that were killed. They are
  // removed when something is written into the same folder.
  static constexpr std::chrono::hours kAbandoned{24};
  static constexpr const char* kHalfPrefix = ".muster-stage.half";  // of the names of half-written files

  // Makes `directory`, which must be absolute, with its parents. PERMISSION_DENIED: another user could exchange a
  // folder on the way (open_folder_by_trusted_path).
  static base::Result<StageFolder> open(const std::string& directory, std::chrono::seconds abandoned = kAbandoned);
  StageFolder(StageFolder&&) = default;
  StageFolder& operator=(StageFolder&&) = delete;  // the name of the half-written file must not change
  StageFolder(const StageFolder&) = delete;
  StageFolder& operator=(const StageFolder&) = delete;
  // Removes the mark and a half-written file.
  ~StageFolder();

  // Makes the mark, a file named `name`. If another host sees this file, both hosts share this folder's file system.
  // On a read-only file system no mark is made. Then each host compares for itself, and a difference becomes an error
  // of write().
  base::Status mark(const std::string& name);
  base::Result<std::vector<std::string>> marks(const std::string& prefix) const;

  // Compares the item with what is in the folder. Folders and links are made at once. CANCELLED: `stop` became true
  // while a file was read.
  // With Digest::kNone no file is read: a file of the right size, but another time, counts as kContent.
  enum class Digest { kNone, kOfFile };
  base::Result<StageCheck> check(const StageItem& item, const std::atomic<bool>* stop = nullptr,
                                 Digest digest = Digest::kOfFile);
  // Writes the next piece of a file's content, beginning with offset 0. With `last`, the file gets its final name.
  base::Status write(const StageItem& item, std::uint64_t offset, std::string_view piece, bool last);
  // Call it if the content turned out to be right. Sets only the file's time and permissions.
  base::Status keep(const StageItem& item) const;
  // Removes abandoned half-written files from the folder of the item, once for each folder.
  void sweep(const StageItem& item);

  // These are for files that are written in another way. Any thread may call them.
  const std::string& directory() const { return directory_; }
  // Opens the folder of the item, and with `make` makes it. PERMISSION_DENIED: another user may write into it.
  base::Result<base::UniqueFd> parent_of(const StageItem& item, bool make) const;
  // Gives a written file the item's mode, time and name. `name` is its present name in `parent`. After an error the
  // file is removed. The caller closes `file`.
  base::Status complete(const StageItem& item, int parent, const base::UniqueFd& file, const std::string& name) const;

 private:
  StageFolder(std::string directory, base::UniqueFd fd, base::Status trust, std::chrono::seconds abandoned);

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
  base::Status trust_;  // why nothing may be staged into this folder; ok if it may
  std::string mark_{};
  std::chrono::seconds abandoned_;
  std::string half_name_;          // the name of a half-written file, in the folder of its final name
  std::set<std::string> swept_{};  // folders below this one from which abandoned files were removed
  // These describe the file that is being written.
  std::string half_path_{};
  base::UniqueFd half_parent_{};
  base::UniqueFd half_{};
  std::uint64_t half_size_ = 0;
};

}  // namespace muster::agent::stage
