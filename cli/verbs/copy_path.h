// The paths of `muster cp`: a file here, or JOB:RANK:PATH beside a rank. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::cli::inline verbs {

struct CopyPath {
  std::string job{};          // empty for a path here
  std::optional<int> rank{};  // nullopt if none is named, as in JOB::PATH
  std::string path{};

  bool is_remote() const { return !job.empty(); }
};

// A word is remote if it has a job's id or name, ':', a rank or nothing, ':', and a path. Write ./a:0:b for a file here
// with such a name. INVALID_ARGUMENT: the part that is wrong, such as the rank.
base::Result<CopyPath> parse_copy_path(std::string_view word);

// Exactly one of both must be remote.
struct CopyPlan {
  CopyPath from;
  CopyPath to;
  bool is_upload() const { return to.is_remote(); }
  const CopyPath& remote() const { return is_upload() ? to : from; }
  const CopyPath& local() const { return is_upload() ? from : to; }
};
base::Result<CopyPlan> parse_copy(std::string_view from, std::string_view to);

// Returns the last part of a path, without slashes: "b" for "/a/b/". Empty for "/", "." and "..".
std::string base_name(std::string_view path);

// The line that the host sends before the bytes of a download: "FILE <bytes> <mode>\n" or "TREE\n". <bytes> is "-" if
// the file does not know its size, as in /proc.
struct CopyHeader {
  bool is_tree = false;
  bool has_size = false;
  long size = 0;
  unsigned mode = 0;
};
// Reads it from the beginning of `bytes`, and removes it from there. nullopt if it is not complete yet.
base::Result<std::optional<CopyHeader>> take_copy_header(std::string& bytes);

}  // namespace muster::cli::verbs
