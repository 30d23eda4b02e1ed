#include "base/host_name.h"

#include <sys/utsname.h>

#include <gtest/gtest.h>

namespace muster::base::host_name_test {
namespace {

TEST(OwnHostName, IsTheKernels) {
  utsname kernel{};
  ASSERT_EQ(::uname(&kernel), 0);
  EXPECT_EQ(own_host_name(), kernel.nodename);
}

}  // namespace
}  // namespace muster::base::host_name_test
