#include "rendezvous/meeting_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::rendezvous::meeting_part_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(HostSet, KeepsRanges) {
  const HostSet set({0, 1, 2, 5, 7, 8});
  EXPECT_THAT(set.ranges(), ElementsAre(Pair(0, 2), Pair(5, 5), Pair(7, 8)));
  EXPECT_EQ(set.size(), 6U);
  for (const int host : {0, 2, 5, 7, 8}) EXPECT_TRUE(set.contains(host)) << host;
  for (const int host : {-1, 3, 4, 6, 9}) EXPECT_FALSE(set.contains(host)) << host;
  EXPECT_FALSE(HostSet().contains(0));
}

TEST(MeetingPart, ComesBackAsItWas) {
  const std::string blob("a\0b", 3);
  const std::string bytes = encode_meeting_part({HostSet({0, 1, 4}), {{0, ""}, {4, blob}}});
  const auto part = parse_meeting_part(bytes, 5);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->members, HostSet({0, 1, 4}));
  ASSERT_EQ(part->entries.size(), 2U);
  EXPECT_EQ(part->entries[0].host, 0);
  EXPECT_EQ(part->entries[1].blob, blob);
  EXPECT_EQ(encode_meeting_part(*part), bytes);
}

TEST(MeetingPart, RefusesWhatNoPeerSends) {
  const std::string good = encode_meeting_part({HostSet({0, 1, 4}), {{0, ""}, {4, "blob"}}});
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(parse_meeting_part(good.substr(0, size), 5).ok()) << "cut at " << size;
  }
  EXPECT_FALSE(parse_meeting_part(good + "x", 5).ok()) << "more than it says";
  EXPECT_FALSE(parse_meeting_part(good, 4).ok()) << "the job has no host 4";
  EXPECT_FALSE(parse_meeting_part(encode_meeting_part({HostSet({0}), {}}), 5).ok()) << "no blob";
  EXPECT_FALSE(parse_meeting_part(encode_meeting_part({HostSet({0}), {{1, "x"}}}), 5).ok()) << "no member";
  EXPECT_FALSE(parse_meeting_part(encode_meeting_part({HostSet({0}), {{0, "x"}, {0, "y"}}}), 5).ok()) << "twice";
  const std::string many("\xff\xff\xff\xff\0\0\0\0", 8);
  EXPECT_FALSE(parse_meeting_part(many, 5).ok()) << "a count that the bytes cannot have";
}

}  // namespace
}  // namespace muster::rendezvous::meeting_part_test
