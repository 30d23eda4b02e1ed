// What is staged, on the launcher's machine: its list, its pieces, its digests. A thread of its own does the reading,
// one request after the other; answers come on the loop. Loop thread only. Its end is soon, whatever is being read, but
// where the file system hangs: see base/disk_thread.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/disk_thread.h"
#include "base/loop.h"
#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline stage {

// What lies at a source: a folder's entries, folders before what is in them, or one file's.
struct StageTree {
  bool is_folder = false;
  std::string root{};  // the folder in which the entries are
  std::vector<v1::StageEntry> entries{};
  std::vector<std::uint64_t> inodes{};  // of each entry
  std::uint64_t bytes = 0;              // of all files
};

// Blocks. Errors name the path. Sockets, devices and the marks of stagings (kStageMark) are left out. A source that is
// itself a link to a file keeps its own name and place; what is read is the file. A source in the folder
// `never_staged`, or that folder in the source, is PERMISSION_DENIED. `stop` is looked at before each entry: CANCELLED.
base::Result<StageTree> scan_stage_source(const std::string& source, const std::string& never_staged = "",
                                          const std::atomic<bool>* stop = nullptr);

// The folder that begins `destination` of a source: what the agents open. The file's name there goes into `name`.
std::string stage_directory(const std::string& destination, const StageTree& tree, std::string& name);

inline constexpr const char* kStageMark = ".muster-stage.";  // how names of Muster's own files begin there

class StageSource {
 public:
  // `never_staged`: see scan_stage_source.
  explicit StageSource(base::Loop& loop, std::string never_staged = "");
  ~StageSource();
  StageSource(const StageSource&) = delete;
  StageSource& operator=(const StageSource&) = delete;

  void scan(std::string source, std::function<void(base::Result<StageTree>)> done);
  // Names in `directory` that begin with `prefix`; none if it cannot be read.
  void names(std::string directory, std::string prefix, std::function<void(std::vector<std::string>)> done);
  // What is a link at the end of a path: of the source itself it is followed, below it the file has been replaced.
  enum class Link { kFollow, kRefuse };
  // Which file it was when it was listed: a changed or replaced one is not what the hosts were told.
  struct Stamp {
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    std::int64_t mtime_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  // Exactly `size` bytes from `offset` on; FAILED_PRECONDITION: it is not the file of `stamp` any more.
  void read(std::string path, Link link, Stamp stamp, std::uint64_t offset, std::size_t size,
            std::function<void(base::Result<std::string>)> done);
  void digest(std::string path, Link link, std::function<void(base::Result<std::string>)> done);

 private:
  // `work` on the thread, then what it returns on the loop.
  void run(const base::DiskThread::Work& work);

  base::Loop& loop_;
  const std::string never_staged_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
  std::unique_ptr<base::DiskThread> thread_;  // from the first request on
};

}  // namespace muster::launcherd::stage
