#include "base/base64.h"

#include <gtest/gtest.h>

namespace muster::base::base64_test {
namespace {

// RFC 4648 §10.
TEST(Base64, TheVectorsOfTheStandard) {
  const std::pair<std::string, std::string> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(encode_base64(bytes), text);
    EXPECT_EQ(decode_base64(text), bytes);
    EXPECT_EQ(decode_base64(text, Base64::kLenient), bytes);
  }
}

TEST(Base64, EachByteComesBack) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
}

TEST(Base64, OnlyTheLenientFormTakesOtherSpellings) {
  for (const char* const text : {"Zg", "Zm8", "-_-_", "Zg=", "Zm9v===="}) {
    EXPECT_FALSE(decode_base64(text).has_value()) << text;
    EXPECT_TRUE(decode_base64(text, Base64::kLenient).has_value()) << text;
  }
  EXPECT_EQ(decode_base64("-_-_", Base64::kLenient), decode_base64("+/+/"));
}

TEST(Base64, WhatIsNone) {
  for (const char* const text : {"Z", "Zm9vY", "Z===", "Zg==Zg==", "Zm 9v", "Zm9\n", "Zm9\x80"}) {
    EXPECT_FALSE(decode_base64(text).has_value()) << text;
    EXPECT_FALSE(decode_base64(text, Base64::kLenient).has_value()) << text;
  }
}

}  // namespace
}  // namespace muster::base::base64_test
