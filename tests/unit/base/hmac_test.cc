#include "base/hmac.h"

#include <gtest/gtest.h>

#include <string>

#include <fmt/format.h>

namespace muster::base::hmac_test {
namespace {

std::string hex(const HmacDigest& digest) {
  std::string text;
  for (const char byte : digest) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// RFC 4231, test cases 1, 2 and 6.
TEST(HmacTest, AgreesWithThePublishedVectors) {
  EXPECT_EQ(hex(hmac_sha256(std::string(20, '\x0b'), {"Hi There"})),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256("Jefe", {"what do ya want ", "for nothing?"})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmac_sha256(std::string(131, '\xaa'), {"Test Using Larger Than Block-Size Key - Hash Key First"})),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HmacTest, DependsOnTheSecretAndOnEveryPart) {
  const HmacDigest digest = hmac_sha256("secret", {"a", "b"});
  EXPECT_NE(digest, hmac_sha256("secres", {"a", "b"}));
  EXPECT_NE(digest, hmac_sha256("secret", {"b", "a"}));
  EXPECT_NE(digest, hmac_sha256("secret", {"a"}));
  EXPECT_EQ(digest, hmac_sha256("secret", {"", "ab"}));
}

TEST(HmacTest, ComparesAllBytes) {
  EXPECT_TRUE(is_equal_in_constant_time("abc", "abc"));
  EXPECT_TRUE(is_equal_in_constant_time("", ""));
  EXPECT_FALSE(is_equal_in_constant_time("abc", "abd"));
  EXPECT_FALSE(is_equal_in_constant_time("abc", "ab"));
}

TEST(HmacTest, WipesInPlace) {
  std::string secret = "0123456789abcdef";
  wipe(secret);
  EXPECT_EQ(secret, std::string(16, '\0'));
}

}  // namespace
}  // namespace muster::base::hmac_test
