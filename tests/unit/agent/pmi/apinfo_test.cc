// The bytes of PALS' apinfo, version 5, as C's structs lie on x86-64: the golden ones were made with Python's struct
// from the declarations in Slurm's and flux-coral2's sources, not by the code under test.
#include "agent/pmi/apinfo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

namespace muster::agent::apinfo_test {
namespace {

using ::testing::HasSubstr;

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// struct.pack('<i4xQ QQi4x QQi4x QQi4x QQi4x QQi4x QQQ', 5, 368, 36, 160, 0, 12, 160, 2, 12, 184, 4, 68, 232, 2,
//             112, 368, 0, 0, 0, 0)
constexpr const char* kHeader =
    "050000000000000070010000000000002400000000000000a00000000000000000000000000000000c00000000000000"
    "a00000000000000002000000000000000c00000000000000b80000000000000004000000000000004400000000000000"
    "e80000000000000002000000000000007000000000000000700100000000000000000000000000000000000000000000"
    "00000000000000000000000000000000";
// Programs: ranks, the most on a host, cores of a rank. struct.pack('<6i', 1, 1, 4, 3, 2, 1)
constexpr const char* kPrograms = "010000000100000004000000030000000200000001000000";
// Ranks: local rank, program, host. struct.pack('<12i', 0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 1, 1)
constexpr const char* kRanks =
    "000000000000000000000000000000000100000001000000010000000100000000000000010000000100000001000000";
// Hosts: number, name. struct.pack('<i64si64s', 0, b'n1', 1, b'x3006c0s13b1n0')
constexpr const char* kHosts =
    "000000006e31000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000010000007833303036633073313362316e3000000000000000000000"
    "00000000000000000000000000000000000000000000000000000000000000000000000000000000";

TEST(Apinfo, TwoProgramsOnTwoHostsByteForByte) {
  const auto file = apinfo_file({{"n1", {0, 2}}, {"x3006c0s13b1n0", {1, 3}}}, {{1, 4}, {3, 1}});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->size(), 368u);
  EXPECT_EQ(hex(file->substr(0, 160)), kHeader);
  EXPECT_EQ(hex(file->substr(160, 24)), kPrograms);
  EXPECT_EQ(hex(file->substr(184, 48)), kRanks);
  EXPECT_EQ(hex(file->substr(232)), kHosts);
}

TEST(Apinfo, WhatDoesNotFitIsSaid) {
  const std::string longest(63, 'h');
  EXPECT_TRUE(apinfo_file({{longest, {0}}}, {{1, 1}}).ok());
  EXPECT_THAT(apinfo_file({{longest + "h", {0}}}, {{1, 1}}).status().message(), HasSubstr("longer than 63 bytes"));
  EXPECT_THAT(apinfo_file({{"n1", {0, 7}}}, {{2, 1}}).status().message(),
              HasSubstr("rank 7 on n1 belongs to no program"));
  EXPECT_THAT(apinfo_file({{"n1", {0}}}, {{2, 1}}).status().message(), HasSubstr("rank 1 is on no host"));
}

}  // namespace
}  // namespace muster::agent::apinfo_test
