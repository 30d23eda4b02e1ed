#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace muster::base::crc32c_test {
namespace {

// The examples of RFC 3720, appendix B.4. It prints the checksums in the order of their bytes on the wire.
TEST(Crc32c, MatchesTheExamplesOfTheStandard) {
  std::string ascending;
  for (char byte = 0; byte < 32; ++byte) ascending += byte;
  const std::string descending(ascending.rbegin(), ascending.rend());
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c(ascending), 0x46dd794eU);
  EXPECT_EQ(crc32c(descending), 0x113fdb5cU);
}

TEST(Crc32c, KnowsTheCheckValueOfTheAlgorithm) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(""), 0U);
}

}  // namespace
}  // namespace muster::base::crc32c_test
