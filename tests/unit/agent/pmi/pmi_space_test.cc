#include "agent/pmi/pmi_space.h"

#include <gtest/gtest.h>

namespace muster::agent::pmi_space_test {
namespace {

std::string read(const PmiSpace& space, std::string_view key) {
  const std::string* const found = space.get(key);
  return found == nullptr ? "(none)" : *found;
}

TEST(PmiSpace, WhatIsPutIsKnownHereAtOnceAndElsewhereByTheBlob) {
  PmiSpace here;
  PmiSpace there;
  ASSERT_TRUE(here.put("a", "1").ok());
  ASSERT_TRUE(here.put("b", std::string("x\0y", 3)).ok());
  ASSERT_TRUE(here.put("a", "2").ok());
  EXPECT_EQ(read(here, "a"), "2");
  EXPECT_EQ(read(there, "a"), "(none)");
  ASSERT_TRUE(there.merge(here.take_blob()).ok());
  EXPECT_EQ(read(there, "a"), "2") << "the last one";
  EXPECT_EQ(read(there, "b"), std::string("x\0y", 3));
  EXPECT_EQ(here.take_blob(), "") << "it travels once";
  EXPECT_EQ(there.take_blob(), "") << "and not back";
}

TEST(PmiSpace, RefusesWhatTheClientWouldCut) {
  PmiSpace space;
  EXPECT_EQ(space.put("", "v").code(), base::Code::kInvalidArgument);
  EXPECT_EQ(space.put(std::string(kMaxPmiKey + 1, 'k'), "v").code(), base::Code::kInvalidArgument);
  EXPECT_EQ(space.put("k", std::string(kMaxPmiValue + 1, 'v')).code(), base::Code::kInvalidArgument);
  EXPECT_TRUE(space.put(std::string(kMaxPmiKey, 'k'), std::string(kMaxPmiValue, 'v')).ok());
  EXPECT_EQ(read(space, ""), "(none)");
}

TEST(PmiSpace, IsBounded) {
  PmiSpace space({.max_put_bytes = 40, .max_total_bytes = 24});
  EXPECT_TRUE(space.put("a", "0123456789").ok());
  EXPECT_EQ(space.put("b", std::string(20, 'x')).code(), base::Code::kResourceExhausted);
  EXPECT_EQ(read(space, "b"), "(none)");
  EXPECT_TRUE(space.put("a", "").ok()) << "instead of the old one";
  EXPECT_EQ(space.put("c", "0123456789").code(), base::Code::kResourceExhausted) << "until the next barrier";
  (void)space.take_blob();
  EXPECT_TRUE(space.put("c", "0123456789").ok());
}

TEST(PmiSpace, ABlobThatIsNoneIsRefused) {
  PmiSpace from;
  ASSERT_TRUE(from.put("key", "value").ok());
  const std::string blob = from.take_blob();
  for (std::size_t size = 1; size < blob.size(); ++size) {
    PmiSpace space;
    EXPECT_EQ(space.merge(blob.substr(0, size)).code(), base::Code::kInvalidArgument) << size;
  }
  PmiSpace space;
  EXPECT_FALSE(space.merge(std::string("\xff\xff\xff\xff", 4) + blob).ok());
}

}  // namespace
}  // namespace muster::agent::pmi_space_test
