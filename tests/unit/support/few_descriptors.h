// A process with few file descriptors left, until the end of the scope.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace muster::testing_support {

class FewDescriptors {
 public:
  // `left` more can be opened, if those that are open have the lowest numbers.
  explicit FewDescriptors(rlim_t left = 0) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const int next = ::fcntl(0, F_DUPFD_CLOEXEC, 0);
    EXPECT_GE(next, 0);
    ::close(next);
    const rlimit few{static_cast<rlim_t>(next) + left, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewDescriptors() { give_back(); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

  void give_back() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

}  // namespace muster::testing_support
