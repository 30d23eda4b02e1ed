#include "launcherd/store/event_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcherd::event_group_test {
namespace {

using ::testing::ElementsAre;

TEST(EventGroup, MessagesComeBackAsTheyWere) {
  std::string group;
  const std::string odd("\0\xff\n", 3);
  const std::string longer(70'000, 'x');
  for (const std::string& message : {std::string("one"), std::string(), odd, longer}) add_to_group(message, group);
  const auto messages = messages_of_group(group);
  ASSERT_TRUE(messages.has_value());
  EXPECT_THAT(*messages, ElementsAre("one", "", odd, longer));
  EXPECT_TRUE(messages_of_group("")->empty());
}

TEST(EventGroup, OtherBytesAreNoGroup) {
  std::string group;
  add_to_group("message", group);
  for (std::size_t length = 1; length < group.size(); ++length) {
    EXPECT_FALSE(messages_of_group(group.substr(0, length)).has_value()) << length;
  }
  EXPECT_FALSE(messages_of_group("\xff\xff\xff\xff").has_value());
}

}  // namespace
}  // namespace muster::launcherd::event_group_test
