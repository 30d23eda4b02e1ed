#include "launcherd/bootstrap/seed_board.h"

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace muster::launcherd::seed_board_test {
namespace {

class SeedBoardTest : public ::testing::Test {
 protected:
  SeedBoard::Source choose() { return board_.choose(true, waiter_); }

  SeedBoard board_;
  const Waiter waiter_{-1, std::chrono::steady_clock::now() + std::chrono::seconds(20)};
};

TEST_F(SeedBoardTest, TheLauncherServesFewHostsItself) {
  board_.expect(8);
  for (int i = 0; i < 8; ++i) {
    const auto source = choose();
    EXPECT_FALSE(source.seed);
    EXPECT_FALSE(source.becomes_seed);
    board_.succeed(source, std::nullopt);
  }
}

TEST_F(SeedBoardTest, OfSixteenHostsFourBecomeSeedsForTheOthers) {
  board_.expect(16);
  std::vector<SeedBoard::Source> first;
  for (int i = 0; i < 4; ++i) first.push_back(choose());
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(first[static_cast<std::size_t>(i)].becomes_seed);
    board_.succeed(first[static_cast<std::size_t>(i)], SeedBoard::Seed{"10.0.0." + std::to_string(i), 4000 + i});
  }
  std::set<std::string> used;
  for (int i = 0; i < 12; ++i) {
    const auto source = choose();
    ASSERT_TRUE(source.seed);
    used.insert(source.seed->address);
    EXPECT_EQ(used.size(), std::min<std::size_t>(static_cast<std::size_t>(i) + 1, 4));  // the least used one
  }
}

TEST_F(SeedBoardTest, OthersWaitForASeed) {
  board_.expect(9);
  const auto first = board_.choose(true, waiter_);
  std::thread other([this] {
    const auto source = board_.choose(false, waiter_);
    ASSERT_TRUE(source.seed);
    EXPECT_EQ(source.seed->port, 4000);
  });
  board_.succeed(first, SeedBoard::Seed{"10.0.0.1", 4000});
  other.join();
}

TEST_F(SeedBoardTest, WithoutSeedsTheLauncherSendsAtOnce) {
  board_.expect(9);
  EXPECT_FALSE(board_.choose(false, waiter_).seed);  // no host can be a seed
  const auto first = choose();
  ASSERT_TRUE(first.becomes_seed);
  board_.fail(first);
  EXPECT_FALSE(board_.choose(false, waiter_).seed);
}

TEST_F(SeedBoardTest, ASeedThatFailsTwiceIsNotUsedAnyMore) {
  board_.expect(9);
  for (int i = 0; i < 3; ++i) {
    const auto source = choose();
    ASSERT_TRUE(source.becomes_seed);
    board_.succeed(source, i == 0 ? std::optional(SeedBoard::Seed{"10.0.0.1", 4000}) : std::nullopt);
  }
  for (int i = 0; i < 2; ++i) {
    const auto source = board_.choose(false, waiter_);
    ASSERT_TRUE(source.seed);
    board_.fail(source);
  }
  EXPECT_FALSE(board_.choose(false, waiter_).seed);
}

TEST_F(SeedBoardTest, HasATokenOfItsOwn) {
  EXPECT_EQ(board_.token().size(), 64U);
  EXPECT_NE(board_.token(), SeedBoard().token());
}

}  // namespace
}  // namespace muster::launcherd::seed_board_test
