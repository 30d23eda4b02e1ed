#include "launcherd/run/host_warnings.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/turn_until.h"

namespace muster::launcherd::host_warnings_test {
namespace {

using ::testing::ElementsAre;

class HostWarningsTest : public ::testing::Test {
 protected:
  base::Loop loop_;
  std::vector<std::string> lines_;
  HostWarnings warnings_{loop_, [this](const std::string& line) { lines_.push_back(line); }};
};

TEST_F(HostWarningsTest, FewLinesAreShownAtOnce) {
  warnings_.add("n1", "n1 does not answer");
  warnings_.add("n2", "n2 does not answer");
  warnings_.add("n1", "n1: its disk is full");
  EXPECT_THAT(lines_, ElementsAre("n1 does not answer", "n2 does not answer", "n1: its disk is full"));
  warnings_.flush();
  EXPECT_EQ(lines_.size(), 3u);
}

TEST_F(HostWarningsTest, ManyLinesBecomeOne) {
  for (int i = 1; i <= 5'000; ++i) warnings_.add(fmt::format("n{:04}", i), fmt::format("n{:04} does not answer", i));
  EXPECT_EQ(lines_.size(), 2u);
  testing_support::turn_until(loop_, [&] { return lines_.size() > 2; });
  EXPECT_THAT(lines_, ElementsAre("n0001 does not answer", "n0002 does not answer",
                                  "4,998 hosts n[0003-5000]: HOST does not answer"));
  warnings_.add("n1", "n1 does not answer");  // later, it is a new line
  EXPECT_EQ(lines_.back(), "n1 does not answer");
}

}  // namespace
}  // namespace muster::launcherd::host_warnings_test
