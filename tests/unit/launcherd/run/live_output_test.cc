#include "launcherd/run/live_output.h"

#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace muster::launcherd::live_output_test {
namespace {

class Lines final : public OutputSink {
 public:
  base::Status write(int rank, proto::OutputStream, std::string_view bytes, std::uint8_t) override {
    calls.push_back(fmt::format("{}:{}", rank, bytes));
    return base::ok_status();
  }
  base::Status end_rank(int rank) override {
    calls.push_back(fmt::format("{} ended", rank));
    return base::ok_status();
  }
  base::Status end_agent(int agent) override {
    calls.push_back(fmt::format("agent {} ended", agent));
    return base::ok_status();
  }
  base::Status flush() override {
    calls.emplace_back("flush");
    return base::ok_status();
  }
  std::vector<std::string> calls;
};

class LiveOutputTest : public ::testing::Test {
 protected:
  void write(int number, std::string_view bytes = "x\n", std::uint8_t flags = 0) {
    EXPECT_TRUE(output_.write(number, proto::OutputStream::kStdout, bytes, flags).ok());
  }

  Lines lines_;
  LiveOutput output_{&lines_};
};

TEST_F(LiveOutputTest, LabelsByTheRankOfTheGeneration) {
  write(2);
  output_.set_ranks({{1, 1}, {2, 2}});
  write(2);
  output_.set_ranks({{2, 0}, {3, 1}});
  write(2);
  write(3);
  EXPECT_TRUE(output_.end_rank(3).ok());
  EXPECT_TRUE(output_.end_agent(7).ok());
  EXPECT_TRUE(output_.flush().ok());
  EXPECT_EQ(lines_.calls,
            (std::vector<std::string>{"2:x\n", "2:x\n", "0:x\n", "1:x\n", "1 ended", "agent 7 ended", "flush"}));
}

TEST_F(LiveOutputTest, AProcessThatHasLeftKeepsARankThatIsFree) {
  output_.set_ranks({{0, 0}, {1, 1}});
  output_.set_ranks({{0, 0}});
  write(1, "late", proto::kPartial);
  EXPECT_TRUE(output_.end_rank(1).ok());
  EXPECT_EQ(lines_.calls, (std::vector<std::string>{"1:late", "1 ended"}));
}

TEST_F(LiveOutputTest, LateLinesAreMarkedIfAnotherProcessHasTheRank) {
  output_.set_ranks({{0, 0}, {1, 1}});
  output_.set_ranks({{1, 0}});
  write(1, "of the present\n");
  write(0, "a\nb\r", 0);
  write(0, "open", proto::kPartial);
  write(0, " line\n", proto::kContinuation);
  EXPECT_TRUE(output_.end_rank(0).ok());
  EXPECT_TRUE(output_.end_rank(1).ok());
  EXPECT_EQ(lines_.calls, (std::vector<std::string>{"0:of the present\n", "0:(left the job) a\n(left the job) b\r",
                                                    "0:(left the job) open\n", "0:(left the job)  line\n", "0 ended"}));
}

}  // namespace
}  // namespace muster::launcherd::live_output_test
