#include "proto/control_key.h"

#include <gtest/gtest.h>

namespace muster::proto::control_key_test {
namespace {

TEST(ControlKey, DependsOnJobAndToken) {
  const base::TlsKey key = control_key("abcdefgh", "token");
  EXPECT_EQ(key.identity, control_key("abcdefgh", "token").identity);
  EXPECT_EQ(key.secret, control_key("abcdefgh", "token").secret);
  EXPECT_NE(key.identity, control_key("zzzzzzzz", "token").identity);
  EXPECT_NE(key.identity, control_key("abcdefgh", "other").identity);
  EXPECT_NE(key.secret, control_key("abcdefgh", "other").secret);
}

TEST(ControlKey, IdentityIsPublicAndFitsTls) {
  const base::TlsKey key = control_key("abcdefgh", "token");
  EXPECT_TRUE(key.identity.starts_with("muster://abcdefgh/control/")) << key.identity;
  EXPECT_LE(key.identity.size(), 128U);
  EXPECT_EQ(key.identity.find("token"), std::string::npos);
  EXPECT_EQ(key.secret.find(key.identity.substr(key.identity.rfind('/') + 1)), std::string::npos);
  EXPECT_TRUE(base::TlsKeyRing().add(key).ok());
}

}  // namespace
}  // namespace muster::proto::control_key_test
