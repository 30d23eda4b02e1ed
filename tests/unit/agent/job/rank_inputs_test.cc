#include "agent/job/rank_inputs.h"

#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace muster::agent::rank_inputs_test {
namespace {

class RankInputsTest : public ::testing::Test {
 protected:
  void SetUp() override { ::signal(SIGPIPE, SIG_IGN); }

  // Starts rank `number`. Returns the end from which it reads.
  base::UniqueFd start(int number) {
    auto pipe = base::make_pipe();
    EXPECT_TRUE(pipe.ok() && base::set_nonblocking(pipe->second.get(), true).ok());
    RankStarted started;
    started.rank = number;
    started.stdin_fd = std::move(pipe->second);
    inputs.started(started);
    EXPECT_FALSE(started.stdin_fd.valid());
    return std::move(pipe->first);
  }
  static v1::RankInput message(const std::vector<int>& ranks, const std::string& data, bool eof) {
    v1::RankInput input;
    for (const int rank : ranks) input.add_ranks(rank);
    input.set_data(data);
    input.set_eof(eof);
    return input;
  }
  static std::string read(const base::UniqueFd& fd) {
    std::string bytes(100, 0);
    const ssize_t n = ::read(fd.get(), bytes.data(), bytes.size());
    bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return bytes;
  }

  base::Loop loop;
  std::vector<v1::InputTaken> reports;
  RankInputs inputs{loop, [this](v1::InputTaken taken) { reports.push_back(std::move(taken)); }};
};

TEST_F(RankInputsTest, ARankHasWhatItsLaunchSays) {
  v1::LaunchRank rank;
  SpawnRequest request;
  inputs.plan(rank, request);
  EXPECT_EQ(request.stdin_of, StdinOf::kNull);
  rank.set_input(true);
  inputs.plan(rank, request);
  EXPECT_EQ(request.stdin_of, StdinOf::kPipe);
  EXPECT_FALSE(inputs.has_terminal(0));
}

TEST_F(RankInputsTest, ATerminalHasTheSizeThatWasToldLast) {
  v1::LaunchRank rank;
  rank.set_rank(4);
  rank.set_pty(true);
  v1::WindowSize size;
  size.set_rows(31);
  size.set_columns(99);
  inputs.resize(size);
  for (const int impossible : {0, -1, 65'536}) {
    size.set_rows(impossible);
    inputs.resize(size);
  }
  SpawnRequest request;
  inputs.plan(rank, request);
  EXPECT_EQ(request.stdin_of, StdinOf::kTerminal);
  EXPECT_EQ(request.rows, 31);
  EXPECT_EQ(request.columns, 99);
  EXPECT_TRUE(inputs.has_terminal(4));
}

TEST_F(RankInputsTest, InputReachesTheRanksThatItNamesAndIsAccountedForEach) {
  const base::UniqueFd one = start(1);
  const base::UniqueFd two = start(2);
  inputs.arrived(message({1, 2, 7}, "both", false));
  inputs.arrived(message({2}, "", true));
  EXPECT_EQ(read(one), "both");
  EXPECT_EQ(read(two), "both");
  EXPECT_EQ(read(two), "") << "it has ended";
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0].rank(), 1);
  EXPECT_EQ(reports[1].rank(), 2);
  EXPECT_EQ(reports[1].bytes(), 4U);
  EXPECT_FALSE(reports[1].closed());
}

TEST_F(RankInputsTest, ARankThatIsOverTakesNothing) {
  const base::UniqueFd one = start(1);
  inputs.over(1);
  inputs.arrived(message({1}, "late", true));
  EXPECT_EQ(read(one), "");
  EXPECT_TRUE(reports.empty());
}

TEST_F(RankInputsTest, TheLauncherHearsThatNobodyReads) {
  base::UniqueFd one = start(1);
  one.reset();
  inputs.arrived(message({1}, "x", false));
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_TRUE(reports[0].closed());
  EXPECT_EQ(reports[0].bytes(), 0U);
}

}  // namespace
}  // namespace muster::agent::rank_inputs_test
