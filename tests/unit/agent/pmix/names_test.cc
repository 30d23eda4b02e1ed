// Names of a job's ranks, in a store that two hosts share: what one of them publishes the other finds.
#include "agent/pmix/names.h"

#include <gtest/gtest.h>

#include <optional>

#include "rendezvous/horovod_store.h"
#include "tests/unit/rendezvous/loop_peer.h"

namespace muster::agent::pmix::names_test {
namespace {

using namespace muster::rendezvous;
using Texts = std::vector<std::string>;

class PmixNamesTest : public ::testing::Test {
 protected:
  // The answer to request `id`.
  NameAnswer answer(std::uint64_t id) {
    EXPECT_TRUE(run_until(loop_, [&] { return answers_.contains(id); })) << id;
    return answers_[id];
  }
  NameStatus status(std::uint64_t id) { return static_cast<NameStatus>(answer(id).status); }
  void got(const NameAnswer& answer) {
    EXPECT_FALSE(answers_.contains(answer.id)) << "a second answer to " << answer.id;
    answers_[answer.id] = answer;
  }

  base::Loop loop_;
  HorovodStore store_{HorovodPlan{}};
  HorovodStoreKeys keys_{store_};
  std::map<std::uint64_t, NameAnswer> answers_;
  Names one_{loop_, keys_, [this](const NameAnswer& answer) { got(answer); }};
  Names other_{loop_, keys_, [this](const NameAnswer& answer) { got(answer); }};
};

TEST_F(PmixNamesTest, WhatOneHostPublishesAnotherFindsUntilItIsTakenBack) {
  other_.look_up({.id = 1, .names = {"a"}});
  EXPECT_EQ(status(1), NameStatus::kMissing);
  one_.publish({.id = 2, .rank = 0, .names = {"a", "b"}, .values = {"1", ""}});
  EXPECT_EQ(status(2), NameStatus::kDone);
  other_.look_up({.id = 3, .names = {"a", "none", "b"}});
  EXPECT_EQ(status(3), NameStatus::kDone);
  EXPECT_EQ(answer(3).names, (Texts{"a", "b"}));
  EXPECT_EQ(answer(3).values, (Texts{"1", ""}));
  other_.unpublish({.id = 4, .rank = 3, .names = {"a"}});
  EXPECT_EQ(status(4), NameStatus::kDone);
  other_.look_up({.id = 5, .names = {"a"}});
  EXPECT_EQ(status(5), NameStatus::kMissing);
  other_.unpublish({.id = 6, .rank = 3, .names = {"a"}});
  EXPECT_EQ(status(6), NameStatus::kMissing);
}

TEST_F(PmixNamesTest, ANameIsPublishedOnce) {
  one_.publish({.id = 1, .rank = 0, .names = {"a"}, .values = {"1"}});
  EXPECT_EQ(status(1), NameStatus::kDone);
  other_.publish({.id = 2, .rank = 1, .names = {"a"}, .values = {"2"}});
  EXPECT_EQ(status(2), NameStatus::kExists);
  other_.look_up({.id = 3, .names = {"a"}});
  EXPECT_EQ(answer(3).values, Texts{"1"});
}

TEST_F(PmixNamesTest, ALookUpMayWait) {
  other_.look_up({.id = 1, .names = {"a", "b"}, .waits = true});
  one_.publish({.id = 2, .rank = 0, .names = {"a"}, .values = {"1"}});
  EXPECT_EQ(status(2), NameStatus::kDone);
  EXPECT_FALSE(answers_.contains(1));
  one_.publish({.id = 3, .rank = 0, .names = {"b"}, .values = {"2"}});
  EXPECT_EQ(status(1), NameStatus::kDone);
  EXPECT_EQ(answer(1).values, (Texts{"1", "2"}));
}

TEST_F(PmixNamesTest, AWaitHasItsLimit) {
  one_.look_up({.id = 1, .names = {"a"}, .waits = true, .seconds = 1});
  EXPECT_EQ(status(1), NameStatus::kMissing);
  one_.publish({.id = 2, .rank = 0, .names = {"a"}, .values = {"1"}});
  EXPECT_EQ(status(2), NameStatus::kDone);
}

// As two groups of ranks use one port again and again.
TEST_F(PmixNamesTest, WhatIsForOneReaderGoesWithIt) {
  for (std::uint64_t turn = 0; turn < 3; ++turn) {
    other_.look_up({.id = 10 * turn + 1, .names = {"port"}, .waits = true});
    one_.publish({.id = 10 * turn + 2, .rank = 0, .names = {"port"}, .values = {"who"}, .is_read_once = true});
    EXPECT_EQ(status(10 * turn + 2), NameStatus::kDone);
    EXPECT_EQ(answer(10 * turn + 1).values, Texts{"who"});
  }
}

TEST_F(PmixNamesTest, ARankTakesBackAllThatIsItsOwn) {
  one_.publish({.id = 1, .rank = 0, .names = {"a", "b"}, .values = {"1", "2"}});
  one_.publish({.id = 2, .rank = 1, .names = {"c"}, .values = {"3"}});
  EXPECT_EQ(status(1), NameStatus::kDone);
  EXPECT_EQ(status(2), NameStatus::kDone);
  one_.unpublish({.id = 3, .rank = 0, .names = {}});
  EXPECT_EQ(status(3), NameStatus::kDone);
  other_.look_up({.id = 4, .names = {"a", "b", "c"}});
  EXPECT_EQ(answer(4).names, Texts{"c"});
}

TEST_F(PmixNamesTest, NothingIsAnsweredOnceItIsGone) {
  {
    Names brief(loop_, keys_, [](const NameAnswer& answer) { ADD_FAILURE() << answer.id; });
    brief.look_up({.id = 1, .names = {"a"}, .waits = true, .seconds = 1});
    brief.look_up({.id = 2, .names = {"a"}});
  }
  one_.publish({.id = 3, .rank = 0, .names = {"a"}, .values = {"1"}});
  EXPECT_EQ(status(3), NameStatus::kDone);
}

TEST_F(PmixNamesTest, AListThatDoesNotFitIsRefused) {
  one_.publish({.id = 1, .rank = 0, .names = {"a", "b"}, .values = {"1"}});
  EXPECT_EQ(status(1), NameStatus::kFailed);
}

}  // namespace
}  // namespace muster::agent::pmix::names_test
