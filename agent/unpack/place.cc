#include "agent/unpack/place.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

namespace muster::agent::inline unpack {

Place::~Place() {
  if (own_name_.empty()) return;
  close_new();
  ::unlink(path_of(own_name_ + "_new").c_str());
  ::unlink(path_of(own_name_).c_str());
}

Problem Place::open(const std::string& own_path) {
  const std::size_t slash = own_path.rfind('/');
  const std::string name = slash == std::string::npos ? "" : own_path.substr(slash + 1);
  if (!name.starts_with(".agent-")) return "this program is started by hvdrun and launcherd only";
  folder_ = own_path.substr(0, slash);
  own_name_ = name;
  return {};
}

void Place::close_new() {
  if (new_fd_ >= 0) ::close(std::exchange(new_fd_, -1));
}

Problem Place::create(int& fd) {
  close_new();
  const std::string path = path_of(own_name_ + "_new");
  ::unlink(path.c_str());
  new_fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0700);
  if (new_fd_ < 0) return errno_problem(errno, "cannot create " + path);
  fd = new_fd_;
  return {};
}

Problem Place::keep(const std::string& name) {
  close_new();  // a file that is open for writing cannot be started
  if (::rename(path_of(own_name_ + "_new").c_str(), path_of(name).c_str()) != 0) {
    return errno_problem(errno, "cannot rename the agent to " + path_of(name));
  }
  return {};
}

}  // namespace muster::agent::unpack
