// The `tar` of this machine, which packs or unpacks a folder at one end of a pipe.
//
// Thread: any, one at a time.
// Destruction without wait_blocking() closes the pipe and ends tar.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::cli::inline verbs {

class CopyArchive {
 public:
  // tar writes the folder's contents to fd().
  static base::Result<CopyArchive> pack(const std::string& folder);
  // tar reads from fd(), and fills the folder.
  static base::Result<CopyArchive> unpack(const std::string& folder);
  ~CopyArchive();
  CopyArchive(CopyArchive&& other) noexcept;
  CopyArchive& operator=(CopyArchive&&) = delete;

  int fd() const { return fd_.get(); }
  // Closes the pipe and waits for tar's end. An error says that tar has failed; its own words are on stderr.
  base::Status wait_blocking();

 private:
  CopyArchive(pid_t pid, base::UniqueFd fd) : pid_(pid), fd_(std::move(fd)) {}
  static base::Result<CopyArchive> start(const std::string& folder, bool is_packing);

  pid_t pid_;  // 0 once it is reaped
  base::UniqueFd fd_;
};

}  // namespace muster::cli::verbs
