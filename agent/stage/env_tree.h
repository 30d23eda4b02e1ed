// Writes the entries of an unpacked environment into an empty folder.
//
// Owner: EnvStore::unpack(), for one archive.
// Thread: one at a time. Calls do disk work and block.
// Safety: nothing is written outside of the folder. Paths are relative and without "..", and no link is followed. A
// link itself may lead anywhere. Only the user can write into what is made, and bits as set-user-id are dropped.
// Errors name the path below the folder. After an error the folder is of no use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "proto/env_archive.h"

namespace muster::agent::inline stage {

class EnvTree {
 public:
  // `home` is the path that the folder gets at last. Files and links that name the source's path name `home` then.
  EnvTree(base::UniqueFd folder, std::string home);

  // The events of proto::EnvReader.
  base::Status begin(const proto::EnvEntry& entry);
  base::Status content(std::string_view bytes);
  base::Status end(const proto::EnvEntry& entry);

  std::uint64_t bytes() const { return bytes_; }  // that were written

 private:
  base::Status open_parent(const std::string& path);
  base::Status make_folder(const proto::EnvEntry& entry) const;
  base::Status make_link(const proto::EnvEntry& entry);
  base::Status make_file(const proto::EnvEntry& entry);
  base::Status complete_file(const proto::EnvEntry& entry);
  base::Status write(std::string_view bytes);

  base::UniqueFd folder_;
  std::string home_;
  std::vector<std::string> prefixes_;
  std::string parent_path_;  // of the folder that parent_ is
  base::UniqueFd parent_;    // the folder of the present entry
  base::UniqueFd file_;      // valid only while a file is written
  std::string file_path_;
  std::string text_;  // content that is held until it is complete
  bool is_held_ = false;
  std::uint64_t bytes_ = 0;
};

}  // namespace muster::agent::stage
