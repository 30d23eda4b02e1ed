#include "model/ulimit.h"

#include <sys/resource.h>

#include <gtest/gtest.h>

namespace muster::model::ulimit_test {
namespace {

TEST(Ulimit, NumbersAndUnlimited) {
  const auto nofile = parse_ulimit("nofile=4096");
  ASSERT_TRUE(nofile.ok()) << nofile.status();
  EXPECT_EQ(*nofile, (Ulimit{RLIMIT_NOFILE, 4096, 4096}));
  const auto core = parse_ulimit("core=0:unlimited");
  ASSERT_TRUE(core.ok()) << core.status();
  EXPECT_EQ(*core, (Ulimit{RLIMIT_CORE, 0, Ulimit::kUnlimited}));
  EXPECT_EQ(parse_ulimit("stack=unlimited")->hard, static_cast<std::uint64_t>(RLIM_INFINITY));
}

TEST(Ulimit, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"", "nofile", "nofile=", "nofile=-1", "nofile=4k", "nofile=10:5", "=3", "files=3",
                           "nofile=unlimited:5", "nofile=1:2:3"}) {
    EXPECT_EQ(parse_ulimit(text).status().code(), base::Code::kInvalidArgument) << text;
  }
  EXPECT_NE(parse_ulimit("nofiles=3").status().message().find("'nofile'"), std::string::npos);
}

TEST(Ulimit, Names) {
  EXPECT_EQ(ulimit_name(RLIMIT_STACK), "stack");
  EXPECT_EQ(ulimit_name(99), "resource 99");
}

}  // namespace
}  // namespace muster::model::ulimit_test
