#include "agent/launch/login_shell.h"

#include <gtest/gtest.h>

namespace muster::agent::login_shell_test {
namespace {

constexpr std::string_view kPasswd =
    "root:x:0:0:root:/root:/bin/bash\n"
    "ann:x:1000:1000:Ann,,,:/home/ann:/usr/bin/zsh\n"
    "bob:x:1001:1001::/home/bob:\n"
    "bad:x:1002\n"
    "eve:x:1003:1003::/home/eve:sh\n"
    "big:x:99999999999999999999:1::/:/bin/sh\n";

TEST(LoginShell, IsFoundByTheNumberOfTheUser) {
  EXPECT_EQ(shell_in(kPasswd, 0), "/bin/bash");
  EXPECT_EQ(shell_in(kPasswd, 1000), "/usr/bin/zsh");
}

TEST(LoginShell, MustBeAnAbsolutePath) {
  EXPECT_EQ(shell_in(kPasswd, 1001), std::nullopt);
  EXPECT_EQ(shell_in(kPasswd, 1003), std::nullopt);
}

TEST(LoginShell, IsUnknownWithoutALineForTheUser) {
  EXPECT_EQ(shell_in(kPasswd, 1002), std::nullopt);
  EXPECT_EQ(shell_in(kPasswd, 77), std::nullopt);
  EXPECT_EQ(shell_in("", 0), std::nullopt);
}

TEST(LoginShell, IsAlwaysAPath) {
  EXPECT_TRUE(login_shell(base::Environment()).starts_with('/'));
}

}  // namespace
}  // namespace muster::agent::login_shell_test
