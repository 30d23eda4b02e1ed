#include "launcherd/output/rank_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/unique_fd.h"

namespace muster::launcherd::inline output {
namespace {

std::string error_file(const std::string& directory, int rank, int size) {
  return rank_directory(directory, rank, size) + "/error.json";
}

}  // namespace

std::string rank_directory(const std::string& directory, int rank, int size) {
  const std::size_t width = std::to_string(std::max(size - 1, 0)).size();
  return fmt::format("{}/rank.{:0{}}", directory, rank, width);
}

base::Status file_error(std::string_view what, const std::string& path, int errno_value) {
  utsname host{};
  const bool is_named = ::uname(&host) == 0;
  return base::errno_error(
      errno_value, fmt::format("--output-filename: {} {} on {}", what, path, is_named ? host.nodename : "this host"));
}

base::Status make_directory(const std::string& path) {
  if (mkdir(path.c_str(), 0777) == 0 || errno == EEXIST) return base::ok_status();
  return file_error("make directory", path, errno);
}

base::Status make_directories(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    MUSTER_RETURN_IF_ERROR(make_directory(path.substr(0, slash)));
  }
  return make_directory(path);
}

base::Status remove_error_files(const std::string& directory, int size) {
  for (int rank = 0; rank < size; ++rank) {
    const std::string path = error_file(directory, rank, size);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return file_error("remove", path, errno);
  }
  return base::ok_status();
}

base::Status write_error_file(const std::string& directory, int rank, int size, std::string_view content) {
  MUSTER_RETURN_IF_ERROR(make_directories(rank_directory(directory, rank, size)));
  const std::string path = error_file(directory, rank, size);
  const base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd.valid()) return file_error("open", path, errno);
  const base::Status written = base::write_all_blocking(fd.get(), content.data(), content.size());
  return written.ok() ? written : base::error(written.code(), "{}: {}", path, written.message());
}

}  // namespace muster::launcherd::output
