#include "launcherd/ssh/known_hosts.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::known_hosts_test {
namespace {

class KnownHostsTest : public ::testing::Test {
 protected:
  std::string path() const { return directory_ / "ssh/known_hosts"; }
  std::string content() const { return directory_.read("ssh/known_hosts"); }

  testing_support::TempDir directory_;
};

TEST_F(KnownHostsTest, AppendsAndMakesThePrivateDirectory) {
  ASSERT_TRUE(add_known_host(path(), "n1 ssh-ed25519 AAAA\n", false).ok());
  ASSERT_TRUE(add_known_host(path(), "[n2]:22 ssh-ed25519 BBBB", false).ok());
  EXPECT_EQ(content(), "n1 ssh-ed25519 AAAA\n[n2]:22 ssh-ed25519 BBBB\n");
  struct stat info {};
  ASSERT_EQ(::stat((directory_ / "ssh").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(KnownHostsTest, CompletesALastLineWithoutNewline) {
  directory_.write("ssh/known_hosts", "n0 ssh-ed25519 ZZZZ");
  ASSERT_TRUE(add_known_host(path(), "n1 ssh-ed25519 AAAA\n", false).ok());
  EXPECT_EQ(content(), "n0 ssh-ed25519 ZZZZ\nn1 ssh-ed25519 AAAA\n");
}

TEST_F(KnownHostsTest, HashesTheName) {
  // Use a long name, because a short one may appear in the base64 of a hash by chance.
  ASSERT_TRUE(add_known_host(path(), "secret.host.name ssh-ed25519 AAAA\n", true).ok());
  EXPECT_TRUE(content().starts_with("|1|")) << content();
  EXPECT_EQ(content().find("secret.host"), std::string::npos);
  EXPECT_TRUE(content().ends_with(" ssh-ed25519 AAAA\n"));
}

TEST_F(KnownHostsTest, SaysWhyItCannot) {
  const base::Status status = add_known_host("/proc/nowhere/known_hosts", "n1 t k", false);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("/proc/nowhere"), std::string::npos);
}

// HMAC-SHA1 with key of 20 times 0x0b and data "Hi There": RFC 2202, test case 1.
TEST(KnownHostsHashTest, IsHmacSha1) {
  EXPECT_EQ(hashed_host_name("Hi There", std::string(20, '\x0b')),
            "|1|CwsLCwsLCwsLCwsLCwsLCwsLCws=|thcxhlUFcmTii8C2+zeMjvFGvgA=");
}

TEST(KnownHostsMarkerTest, FindsMarkers) {
  EXPECT_FALSE(has_marker_lines(""));
  EXPECT_FALSE(has_marker_lines("# @revoked\nn1 ssh-rsa @\n"));
  EXPECT_TRUE(has_marker_lines("n1 k v\n  @cert-authority *.x ssh-rsa A\n"));
}

}  // namespace
}  // namespace muster::launcherd::known_hosts_test
