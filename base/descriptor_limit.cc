#include "base/descriptor_limit.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/unique_fd.h"

namespace muster::base {
namespace {

constexpr std::size_t kSpareDescriptors = 128;

}  // namespace

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

std::size_t descriptor_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<std::size_t>(limit.rlim_cur) : 0;
}

std::size_t spare_descriptors() {
  return std::min(kSpareDescriptors, descriptor_limit() / 4);
}

bool has_spare_descriptors(int fd, std::size_t spare) {
  const UniqueFd next(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  return next.valid() && static_cast<std::size_t>(next.get()) + spare < descriptor_limit();
}

}  // namespace muster::base
