// The file or folder that a download makes here. It grows under a temporary name beside its place, and gets its own
// name only when it is complete.
//
// Thread: one at a time: take() on the thread that reads from the launcher, the rest before and after it.
// Destruction without commit() removes what has arrived.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"
#include "cli/verbs/copy_archive.h"
#include "cli/verbs/copy_path.h"

namespace muster::cli::inline verbs {

class CopyReceiver {
 public:
  // `target` is the path that the user named. If it is a folder, the copy gets `name` in it. Folders are refused unless
  // `takes_folders`.
  CopyReceiver(const std::string& target, const std::string& name, bool takes_folders);
  ~CopyReceiver();
  CopyReceiver(const CopyReceiver&) = delete;
  CopyReceiver& operator=(const CopyReceiver&) = delete;

  // Handles more of what the host sends (take_copy_header).
  base::Status take(std::string_view bytes);
  // Call it when the host has sent everything.
  base::Status commit();

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t size() const;  // 0 if it is not known
  const std::string& path() const { return path_; }

 private:
  base::Status begin();
  base::Status write(std::string_view bytes);
  void remove();

  std::string path_;
  const bool takes_folders_;
  std::string start_;  // bytes before the header is complete
  std::optional<CopyHeader> header_;
  std::string temporary_;  // empty before begin() and after commit()
  base::UniqueFd file_;
  std::optional<CopyArchive> archive_;
  std::uint64_t bytes_ = 0;
};

}  // namespace muster::cli::verbs
