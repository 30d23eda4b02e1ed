// Reads the staged files on the launcher's machine: their list, their pieces and their digests.
//
// Owner: Staging.
// Thread: loop thread only. A thread of its own reads, one request after the other. Answers come on the loop.
// Destruction: it returns soon, even during a read, unless the file system hangs (base/disk_thread.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/disk_thread.h"
#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline stage {

// The contents of a source: the entries of a folder, each folder before its contents, or the entry of one file.
struct StageTree {
  bool is_folder = false;
  std::string root{};  // the folder that contains the entries
  std::vector<v1::StageEntry> entries{};
  std::vector<std::uint64_t> inodes{};  // one for each entry
  std::uint64_t bytes = 0;              // sum of all files
};

// Lists a source. It blocks. It leaves out sockets, devices and the marks of stagings (kStageMark). If the source is a
// link to a file, the link keeps its name and place, and the file is read. `stop` is checked before each entry.
// Errors name the path. PERMISSION_DENIED: the source lies in the folder `never_staged`, or contains it. CANCELLED:
// `stop` was set.
base::Result<StageTree> scan_stage_source(const std::string& source, const std::string& never_staged = "",
                                          const std::atomic<bool>* stop = nullptr);

// Returns the folder that the agents open on the hosts for `destination`. `name` receives the file's name there.
std::string stage_directory(const std::string& destination, const StageTree& tree, std::string& name);

inline constexpr const char* kStageMark = ".muster-stage.";  // prefix of Muster's own files in that folder

class StageSource {
 public:
  // `never_staged` is that of scan_stage_source().
  explicit StageSource(base::Loop& loop, std::string never_staged = "");
  ~StageSource();
  StageSource(const StageSource&) = delete;
  StageSource& operator=(const StageSource&) = delete;

  void scan(std::string source, std::function<void(base::Result<StageTree>)> done);
  // Returns the names in `directory` that begin with `prefix`. Empty if it cannot be read.
  void names(std::string directory, std::string prefix, std::function<void(std::vector<std::string>)> done);
  // How to treat a link at the end of a path. Follow the source itself, which may be a link. Refuse a link below the
  // source, because it has replaced the listed file.
  enum class Link { kFollow, kRefuse };
  // Identifies a file as it was listed. If the file changes or is replaced, it no longer matches the list that the
  // hosts got.
  struct Stamp {
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    std::int64_t mtime_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  // Reads exactly `size` bytes from `offset` on. FAILED_PRECONDITION: the file no longer matches `stamp`.
  void read(std::string path, Link link, Stamp stamp, std::uint64_t offset, std::size_t size,
            std::function<void(base::Result<std::string>)> done);
  // Returns the SHA-256 of each block of `block_bytes` from `offset` on, 32 bytes each; `size` bytes in all.
  // FAILED_PRECONDITION as above.
  void hashes(std::string path, Link link, Stamp stamp, std::uint64_t offset, std::size_t size, std::size_t block_bytes,
              std::function<void(base::Result<std::string>)> done);
  void digest(std::string path, Link link, std::function<void(base::Result<std::string>)> done);
  // Changes when a read has ended. While it stays the same, and a read is under way, the disk here is slow.
  std::uint64_t reads_ended() const { return reads_ended_; }
  bool is_reading() const { return reads_begun_ != reads_ended_; }

 private:
  // Runs `work` on the thread, then the task that it returns on the loop.
  void run(const base::DiskThread::Work& work);

  base::Loop& loop_;
  const std::string never_staged_;
  std::uint64_t reads_begun_ = 0;  // by read()
  std::uint64_t reads_ended_ = 0;
  std::unique_ptr<base::DiskThread> thread_;  // started by the first request
  base::Gate gate_;
};

}  // namespace muster::launcherd::stage
