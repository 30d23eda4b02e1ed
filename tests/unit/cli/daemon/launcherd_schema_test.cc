#include "cli/daemon/launcherd_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace muster::cli::launcherd_schema_test {
namespace {

TEST(LauncherdSchema, HasTheKeysOfTheFile) {
  const auto schema = base::parse_json(launcherd_schema());
  ASSERT_TRUE(schema.ok()) << schema.status();
  const base::JsonNode* const properties = schema->find("properties");
  ASSERT_NE(properties, nullptr);
  const auto types_of = [&](std::string_view key) { return properties->find(key)->array_at("anyOf"); };
  EXPECT_EQ(types_of("http_write").at(0).text_at("type"), "boolean");
  EXPECT_EQ(types_of("ssh_backend").at(0).array_at("enum").at(1).text, "libssh");
  EXPECT_EQ(types_of("listen").at(2).text_at("type"), "array");
  EXPECT_EQ(properties->find("agent_dir")->text_at("default"), "~/.cache/muster");
  EXPECT_THAT(properties->keys, ::testing::Contains("muster"));
  EXPECT_THAT(properties->keys, ::testing::Not(::testing::Contains("check")));
}

}  // namespace
}  // namespace muster::cli::launcherd_schema_test
