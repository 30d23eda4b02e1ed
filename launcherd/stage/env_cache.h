// The packed environments of --stage-env on the launcher's machine: ~/.cache/muster/envs. A file's name says what it
// was made from and what it contains, so there is no index that could be wrong:
//
//   <source>-<fingerprint>-<id>-<sha256>.env     each in hexadecimal digits
//   .new.<random>                                an archive that is being written
//
// Locks (flock): a program holds an archive shared while it sends it. Only archives that nobody holds are removed.
// Thread: any; blocks as long as the disk does.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "launcherd/stage/stage_source.h"

namespace muster::launcherd::inline stage {

struct EnvArchiveName {
  std::string source;       // a hash of the source's path
  std::string fingerprint;  // env_fingerprint()
  std::string id;           // of the content (proto/env_archive.h)
  std::string sha256;       // of the file

  bool operator==(const EnvArchiveName&) const = default;
};

std::string file_name_of(const EnvArchiveName& name);
// nullopt for a name of another form.
std::optional<EnvArchiveName> parse_env_archive_name(std::string_view file_name);

// Changes when the environment may have changed: by its paths, kinds, sizes, times, modes and targets of links. It
// reads no file. `prefixes` are the source's paths.
base::Result<std::string> env_fingerprint(const StageTree& tree, const std::vector<std::string>& prefixes);
base::Result<std::string> env_source_key(const std::string& source);

struct EnvArchive {
  std::string path;
  EnvArchiveName name;
  base::UniqueFd held;  // nobody removes the file while this is open
};

class EnvCache {
 public:
  // Makes the folder with its parents. PERMISSION_DENIED: another user could write into it.
  static base::Result<EnvCache> open(const std::string& folder);

  // nullopt if the environment was not packed in this state.
  std::optional<EnvArchive> find(const std::string& source, const std::string& fingerprint) const;
  // Returns the path for a new archive.
  std::string new_path() const;
  // Gives the new archive its name. Then removes older ones of this source, those that nobody has used for kUnused, and
  // what killed programs have left.
  base::Result<EnvArchive> keep(const std::string& new_path, const EnvArchiveName& name) const;
  // Checks that the file is what its name says. If it is not, removes it and returns false.
  static base::Result<bool> check(const EnvArchive& archive, const std::atomic<bool>* stop);

 private:
  explicit EnvCache(std::string folder) : folder_(std::move(folder)) {}

  base::Result<EnvArchive> hold(const EnvArchiveName& name) const;
  void remove_old(const EnvArchiveName& newest) const;

  std::string folder_;
};

}  // namespace muster::launcherd::stage
