#include "agent/pmix/find_library.h"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/file.h"
#include "base/strings.h"
#include "base/unique_fd.h"

namespace muster::agent::pmix {
namespace {

constexpr std::string_view kName = "libpmix.so.2";

bool is_library(const std::string& path) {
  const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  char magic[4] = {};
  return file.valid() && ::read(file.get(), magic, sizeof magic) == sizeof magic &&
         std::string_view(magic, sizeof magic) == "\177ELF";
}

// Searches the cache's bytes. Its strings are paths that end with a NUL.
bool is_in_cache(std::string_view cache) {
  const std::string ending = "/" + std::string(kName) + '\0';
  for (auto at = cache.find(ending); at != std::string_view::npos; at = cache.find(ending, at + 1)) {
    const auto before = cache.rfind('\0', at);
    const auto begin = before == std::string_view::npos ? 0 : before + 1;
    if (is_library(std::string(cache.substr(begin, at - begin + 1 + kName.size())))) return true;
  }
  return false;
}

}  // namespace

bool has_libpmix(std::string_view library_path, const std::string& cache) {
  for (const std::string_view folder : base::split(library_path, ':')) {
    if (!folder.empty() && is_library(fmt::format("{}/{}", folder, kName))) return true;
  }
  const auto content = base::read_file(cache);
  return !content.ok() || is_in_cache(*content);
}

}  // namespace muster::agent::pmix
