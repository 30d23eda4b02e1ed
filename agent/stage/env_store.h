// The environments of --stage-env on this host: one folder for each, named by its id (proto/env_archive.h), below
// ${MUSTER_TMPDIR:-/tmp}/muster-<uid>/envs.
//
//   <id>          a complete environment. The file kEnvMark in it holds the boot in which it was unpacked; the file's
//   time
//                 is that of the last use.
//   <id>.pack     its archive, while it is staged
//   .new.<random> an environment that is being unpacked. It gets its name when it is complete.
//
// Nothing is flushed to the disk. So an environment of an earlier boot does not count: it may miss what a crash lost.
// Cleaners of /tmp remove files that nobody has used for ten days, one by one. So an environment that no job has used
// for kForgotten does not count, either, and a use makes all its files recent.
//
// Locks (flock): whoever uses a folder holds it shared, and so does who fills one. A folder is removed only with the
// exclusive lock. Cleaners such as systemd-tmpfiles leave locked folders alone.
//
// Thread: any, one at a time. Calls do disk work and block.
// Safety: the folder is private to the user. An environment of another user is refused by name.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline stage {

inline constexpr const char* kEnvMark = ".muster-env";

struct StoredEnv {
  std::string path{};
  std::uint64_t bytes = 0;      // 0 if it is not known
  std::chrono::seconds idle{};  // since the last use
  bool is_used = false;         // a job uses it now
};

class EnvStore {
 public:
  static constexpr std::chrono::hours kForgotten{7 * 24};
  static constexpr std::chrono::hours kRecent{24};       // a use makes the files recent at most so often
  static constexpr std::chrono::minutes kAbandoned{10};  // for what a killed agent leaves

  // Makes the folder, whose parent must be the private folder of the sessions. PERMISSION_DENIED: it belongs to another
  // user.
  static base::Result<EnvStore> open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  std::string path_of(const std::string& id) const { return folder_ + "/" + id; }

  // Returns whether the environment is here, complete and usable. Counts as a use.
  base::Result<bool> find(const std::string& id) const;
  // Returns a descriptor. While it is open, nobody removes the environment. NOT_FOUND: it is not here.
  base::Result<base::UniqueFd> hold(const std::string& id) const;
  // Unpacks <id>.pack and removes it. If another job has done so meanwhile, uses the result of that.
  // DATA_LOSS: the archive is damaged; it is removed. CANCELLED: `stop` became true.
  base::Status unpack(const std::string& id, const std::atomic<bool>* stop = nullptr) const;
  // Removes what killed agents have left, and environments that were forgotten.
  void sweep() const;

  std::vector<StoredEnv> list() const;
  // Removes the environment. Returns false if a job uses it.
  base::Result<bool> remove(const std::string& id) const;

 private:
  explicit EnvStore(std::string folder) : folder_(std::move(folder)) {}

  base::Status fill(const std::string& id, const std::string& fresh, const std::atomic<bool>* stop) const;
  base::Status settle(const std::string& id, const std::string& fresh) const;
  base::Result<bool> remove_path(const std::string& path) const;

  std::string folder_;
};

}  // namespace muster::agent::stage
