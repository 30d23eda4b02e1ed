#include "proto/enrolment.h"

#include <gtest/gtest.h>

namespace muster::proto::enrolment_test {
namespace {

std::string text_of(const std::string& message) {
  const auto size = enrolment_size(message);
  EXPECT_TRUE(size.ok()) << size.status();
  const std::string text = message.substr(kEnrolmentHeader);
  EXPECT_EQ(text.size(), *size);
  return text;
}

TEST(EnrolmentTest, HelloAndAnswerComeBack) {
  const auto hello = decode_hello(text_of(encode_hello({"0123abcd", {"n1.site", "n1", "fe80::1%eth0"}, 12, "a1b2"})));
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_EQ(hello->build_id, "0123abcd");
  EXPECT_EQ(hello->names, (std::vector<std::string>{"n1.site", "n1", "fe80::1%eth0"}));
  EXPECT_EQ(hello->slots, 12);
  EXPECT_EQ(hello->instance, "a1b2");
  const auto taken = decode_answer(text_of(encode_answer({true, "n1"})));
  ASSERT_TRUE(taken.ok());
  EXPECT_TRUE(taken->is_taken);
  EXPECT_EQ(taken->text, "n1");
  const auto refused = decode_answer(text_of(encode_answer({false, "no\x1b[2J"})));
  ASSERT_TRUE(refused.ok());
  EXPECT_FALSE(refused->is_taken);
  EXPECT_EQ(refused->text.find('\x1b'), std::string::npos);
}

TEST(EnrolmentTest, RefusesJunk) {
  for (const std::string& header : {std::string(), std::string("\0\0\0\0", 4), std::string("\xff\xff\xff\xff", 4)}) {
    EXPECT_FALSE(enrolment_size(header).ok());
  }
  const std::string first = "MUSTER-ENROL 1 id 0 a\n";
  for (const std::string& text :
       {std::string(), first, std::string("MUSTER-ENROL 1 id 0 a"), std::string("MUSTER-ENROL 2 id 0 a\nn1"),
        std::string("MUSTER-ENROL 1 id 0\nn1"), std::string("MUSTER-ENROL 1 id 0 a-b\nn1"),
        std::string("MUSTER-ENROL 1 id -1 a\nn1"), std::string("MUSTER-ENROL 1 id 01 a\nn1"),
        std::string("MUSTER-ENROL 1 id 100001 a\nn1"), std::string("MUSTER-ENROL 1 \nn1"),
        std::string("MUSTER-ENROL 1 a b\nn1"), std::string("MUSTER-ENROL 1 a 1 1 1\nn1"), first + "-n1", first + "n1\n",
        first + "n 1", first + "n1;x", first + std::string(254, 'n'), first + "a\nb\nc\nd\ne\nf\ng\nh\ni"}) {
    EXPECT_FALSE(decode_hello(text).ok()) << text;
  }
  EXPECT_FALSE(decode_answer("").ok());
  EXPECT_FALSE(decode_answer("maybe").ok());
}

}  // namespace
}  // namespace muster::proto::enrolment_test
