#include "launcherd/service/own_user.h"

#include <pwd.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace muster::launcherd::own_user_test {
namespace {

TEST(OwnUser, IsTheNameOfThisProcesssUser) {
  const passwd* const entry = ::getpwuid(::getuid());
  EXPECT_EQ(own_user(), entry == nullptr ? fmt::format("uid {}", ::getuid()) : entry->pw_name);
  EXPECT_EQ(&own_user(), &own_user()) << "it is looked up once";
}

}  // namespace
}  // namespace muster::launcherd::own_user_test
