#include "agent/unpack/source_line.h"

#include <gtest/gtest.h>

namespace muster::agent::source_line_test {
namespace {

const std::string kHash = std::string(60, 'a') + "0129";

TEST(SourceLine, ReadsHashAndSizes) {
  const auto line = parse_source_line("unpack " + kHash + " 16000000 6000000");
  ASSERT_TRUE(line);
  EXPECT_EQ(line->sha256, kHash);
  EXPECT_EQ(line->size, 16'000'000U);
  EXPECT_EQ(line->packed_size, 6'000'000U);
}

TEST(SourceLine, ReadsTheSeed) {
  const std::string token(64, 'b');
  const auto seed = parse_source_line("unpack " + kHash + " 16 6 " + token);
  ASSERT_TRUE(seed);
  EXPECT_EQ(seed->token, token);
  const auto line = parse_source_line("fetch " + kHash + " 16 " + token + " fe80::1%eth0 4242");
  ASSERT_TRUE(line);
  EXPECT_EQ(line->packed_size, 0U);
  EXPECT_EQ(line->token, token);
  EXPECT_EQ(line->address, "fe80::1%eth0");
  EXPECT_EQ(line->port, 4242);
}

TEST(SourceLine, RefusesEverythingElse) {
  const std::string upper(64, 'A');
  for (const std::string& line :
       {std::string(), std::string("unpack"), "unpack " + kHash, "unpack " + kHash + " 5", "unpack " + kHash + " 5 6 7",
        "unpack " + kHash + " 5 6 ", "unpack  " + kHash + " 5 6", "fetch " + kHash + " 5 6", "unpack " + upper + " 5 6",
        "fetch " + kHash + " 5 " + kHash, "fetch " + kHash + " 5 " + kHash + " 10.0.0.1 65536",
        "fetch " + kHash + " 5 " + kHash + " 10.0.0.1 0", "fetch " + kHash + " 5 " + kHash + " 10.0.0.1 1 2",
        std::string("unpack a 5 6"), "unpack " + kHash + " 0 6", "unpack " + kHash + " -5 6",
        "unpack " + kHash + " 5x 6", "unpack " + kHash + " 99999999999999999999 6",
        "unpack " + kHash + " 600000000 6"}) {
    EXPECT_FALSE(parse_source_line(line)) << line;
  }
}

}  // namespace
}  // namespace muster::agent::source_line_test
