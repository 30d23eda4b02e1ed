#include "rendezvous/horovod_notice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hmac.h"

namespace muster::rendezvous::horovod_notice_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

// launchers.md 2.4: Horovod's own classes load exactly this body.
TEST(HorovodNotice, BodyIsTheSmallestThatHorovodLoads) {
  const std::string expected = std::string("\x80\x02") + "chorovod.runner.elastic.worker\nHostsUpdatedRequest\n" +
                               ")\x81}(" + std::string("X\x09\0\0\0timestamp", 14) + "J\x78\x56\x34\x12" +
                               std::string("X\x03\0\0\0res", 8) + "chorovod.runner.elastic.worker\nHostUpdateResult\n" +
                               "K\x03\x85Rub.";
  EXPECT_EQ(horovod_notice_body(0x12345678, 3), expected);
}

TEST(HorovodNotice, TimesAfter2038NeedMoreBytes) {
  EXPECT_THAT(horovod_notice_body(0x7fffffff, 3), HasSubstr("J\xff\xff\xff\x7f"));
  EXPECT_THAT(horovod_notice_body(0x80000000, 3), HasSubstr(std::string("\x8a\x08\0\0\0\x80\0\0\0\0", 10)));
}

TEST(HorovodNotice, FrameCanBeChecked) {
  const std::string frame = horovod_notice_frame("key", "body");
  ASSERT_EQ(frame.size(), kHorovodNoticeHead + 4);
  EXPECT_THAT(frame, EndsWith("body"));
  const std::string_view head = std::string_view(frame).substr(0, kHorovodNoticeHead);
  EXPECT_EQ(horovod_notice_body_size(head).value(), 4U);
  EXPECT_TRUE(check_horovod_notice("key", head, "body").ok());
  EXPECT_EQ(check_horovod_notice("kex", head, "body").code(), base::Code::kPermissionDenied);
  EXPECT_EQ(check_horovod_notice("key", head, "bodx").code(), base::Code::kPermissionDenied);
  EXPECT_FALSE(horovod_notice_body_size(head.substr(1)).ok());
}

TEST(HorovodNotice, LimitsTheSizeOfAReply) {
  std::string head(kHorovodNoticeHead, '\0');
  head[base::kHmacSize + 2] = 1;  // 64 KiB on a little-endian host
  EXPECT_TRUE(horovod_notice_body_size(head).ok());
  head[base::kHmacSize] = 1;
  EXPECT_FALSE(horovod_notice_body_size(head).ok());
  head[base::kHmacSize + 3] = '\xff';
  EXPECT_FALSE(horovod_notice_body_size(head).ok()) << "negative";
}

}  // namespace
}  // namespace muster::rendezvous::horovod_notice_test
