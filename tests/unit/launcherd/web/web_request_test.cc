#include "launcherd/web/web_request.h"

#include <gtest/gtest.h>

namespace muster::launcherd::web_request_test {
namespace {

using Words = std::vector<std::string>;

TEST(WebRequest, PathsAndQueries) {
  EXPECT_EQ(parse_web_target("/")->path, Words{});
  EXPECT_EQ(parse_web_target("/api/jobs/k7")->path, (Words{"api", "jobs", "k7"}));
  EXPECT_EQ(parse_web_target("//api//jobs/")->path, (Words{"api", "jobs"}));
  EXPECT_EQ(parse_web_target("/a%20b/%C3%A9")->path, (Words{"a b", "é"}));
  EXPECT_EQ(parse_web_target("/a%2fb")->path, (Words{"a/b"}));  // one word, not two
  const auto target = parse_web_target("/api/jobs?all=1&name=%41%3d&empty=&flag&all=2&");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->query,
            (std::map<std::string, std::string>{{"all", "2"}, {"name", "A="}, {"empty", ""}, {"flag", ""}}));
}

TEST(WebRequest, WhatIsNone) {
  for (const char* const bad : {"", "api", "http://x/", "*", "/%", "/%4", "/%zz", "/a%00b", "/a\tb", "/?x=%1f"}) {
    EXPECT_FALSE(parse_web_target(bad)) << bad;
  }
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "/x";
  EXPECT_FALSE(parse_web_target(deep));
  std::string wide = "/?";
  for (int i = 0; i < 100; ++i) wide += "x&";
  EXPECT_FALSE(parse_web_target(wide));
}

TEST(WebRequest, HostsThatAreThisMachine) {
  for (const char* const good : {"localhost", "localhost:7480", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:7480"}) {
    EXPECT_TRUE(is_local_host_header(good)) << good;
  }
  for (const char* const bad : {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "localhost:",
                                "localhost:x", "localhost:7480x", "127.0.0.12", "::1", "n1:7480", " localhost"}) {
    EXPECT_FALSE(is_local_host_header(bad)) << bad;
  }
}

}  // namespace
}  // namespace muster::launcherd::web_request_test
