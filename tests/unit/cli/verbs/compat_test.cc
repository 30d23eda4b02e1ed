#include "cli/verbs/compat.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::cli::compat_test {
namespace {

class CompatTest : public ::testing::Test {
 protected:
  void write(const std::string& client, const std::string& text) const { directory_.write(client + ".json", text); }
  v1::ClientResult row(const std::string& client) {
    for (const v1::ClientResult& result : read_compat(directory_.path(), &problems_)) {
      if (result.client() == client) return result;
    }
    return {};
  }

  testing_support::TempDir directory_;
  std::vector<std::string> problems_;
};

TEST_F(CompatTest, WithoutResultsNothingWasRun) {
  for (const v1::ClientResult& result : read_compat(directory_ / "nothing", &problems_)) {
    EXPECT_EQ(result.result(), "not run") << result.client();
    EXPECT_FALSE(result.protocol().empty());
  }
  EXPECT_TRUE(problems_.empty());
}

TEST_F(CompatTest, ANewBuildHasNothingAgainstItsClients) {
  const std::string table = format_compat(read_compat(directory_ / "nothing", &problems_), "abc");
  EXPECT_TRUE(table.starts_with("Muster serves all of these. None was tried with this build yet")) << table;
  EXPECT_NE(table.find("  not tried here\n"), std::string::npos) << table;
  EXPECT_EQ(table.find("not run"), std::string::npos) << table;
  write("torch-2.1", R"({"client": "torch-2.1", "result": "passed", "version": "2.1.2", "tests": 4,
                         "time": "2026-01-02T03:04:05Z", "build": "abc"})");
  EXPECT_TRUE(format_compat(read_compat(directory_.path(), &problems_), "abc").starts_with("client "));
}

TEST_F(CompatTest, AResultIsRead) {
  write("torch-2.1", R"({"client": "torch-2.1", "result": "passed", "version": "2.1.2", "tests": 4,
                         "time": "2026-01-02T03:04:05Z", "build": "abc"})");
  const v1::ClientResult result = row("torch-2.1");
  EXPECT_EQ(result.result(), "passed");
  EXPECT_EQ(result.tests(), 4);
  EXPECT_NE(format_compat({result}, "abc").find("passed: 2.1.2, 4 tests, 2026-01-02\n"), std::string::npos);
  EXPECT_NE(format_compat({result}, "def").find("2026-01-02, with another build\n"), std::string::npos);
  EXPECT_EQ(row("torch-2.2").result(), "not run");
}

TEST_F(CompatTest, WhatIsNoResultClaimsNothing) {
  for (const char* junk : {"", "junk", "{}", R"({"client": "torch-2.2", "result": "passed"})",
                           R"({"client": "torch-2.1", "result": "perfect"})", R"({"client": "torch-2.1"})",
                           R"({"client": "torch-2.1", "result": "passed", "more": 1})"}) {
    problems_.clear();
    write("torch-2.1", junk);
    EXPECT_EQ(row("torch-2.1").result(), "not run") << junk;
    EXPECT_EQ(problems_.size(), 1u) << junk;
  }
}

}  // namespace
}  // namespace muster::cli::compat_test
