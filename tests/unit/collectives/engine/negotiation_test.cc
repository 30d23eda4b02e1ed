#include "collectives/engine/negotiation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace muster::collectives::negotiation_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The ranks of a communicator, each with its own view of it.
class NegotiationTest : public testing::Test {
 protected:
  void make(int ranks, std::size_t capacity = 4) {
    for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(std::make_unique<Negotiation>(ranks, rank, capacity));
  }
  void submit(std::size_t rank, const std::string& name, std::int64_t size = 4, Kind kind = Kind::kAllreduce) {
    Signature signature{.kind = kind, .tensors = {{DType::kF32, {size}}}};
    if (kind == Kind::kJoin) signature.tensors.clear();
    ranks_[rank]->submit({name, signature});
  }
  // One turn; that all ranks have come to the same.
  std::vector<Due> turn() {
    std::vector<Announcements> announcements;
    for (const auto& rank : ranks_) announcements.push_back(rank->announcements());
    announced_ = 0;
    for (const Announcements& one : announcements) announced_ += one.announced.size();
    std::vector<Due> first = ranks_[0]->decide(announcements);
    for (std::size_t rank = 1; rank < ranks_.size(); ++rank) {
      const std::vector<Due> due = ranks_[rank]->decide(announcements);
      EXPECT_EQ(names(due), names(first));
      EXPECT_EQ(ranks_[rank]->cached_words(), ranks_[0]->cached_words());
    }
    return first;
  }
  static std::vector<std::string> names(const std::vector<Due>& due) {
    std::vector<std::string> list;
    for (const Due& one : due) list.push_back(one.name);
    return list;
  }
  std::vector<std::unique_ptr<Negotiation>> ranks_;
  std::size_t announced_ = 0;  // in the last turn, by all
};

TEST_F(NegotiationTest, ATensorIsDueWhenAllRanksHaveSubmittedIt) {
  make(3);
  submit(0, "a");
  submit(1, "b");
  submit(1, "a");
  EXPECT_THAT(turn(), IsEmpty());
  for (const auto& rank : ranks_) {  // all know of all
    const std::vector<Negotiation::Late> late = rank->late();
    ASSERT_EQ(late.size(), 2U);
    EXPECT_EQ(late[0].name, "a");
    EXPECT_THAT(late[0].missing, ElementsAre(2));
    EXPECT_EQ(late[1].name, "b");
    EXPECT_THAT(late[1].missing, ElementsAre(0, 2));
  }
  submit(2, "a");
  EXPECT_THAT(names(turn()), ElementsAre("a"));
  EXPECT_FALSE(ranks_[0]->is_waiting());
  EXPECT_TRUE(ranks_[1]->is_waiting());
}

TEST_F(NegotiationTest, WhatIsKnownIsAnnouncedByItsBit) {
  make(2);
  for (int round = 0; round < 3; ++round) {
    submit(0, "a");
    submit(1, "a");
    EXPECT_THAT(names(turn()), ElementsAre("a"));
    EXPECT_EQ(announced_, round == 0 ? 2U : 0U);
  }
  submit(0, "a");
  EXPECT_THAT(turn(), IsEmpty());
  EXPECT_THAT(ranks_[0]->late()[0].missing, ElementsAre(1));
}

TEST_F(NegotiationTest, ABitBesideAnotherShapeIsWhatTheCacheSays) {
  make(2);
  submit(0, "a");
  submit(1, "a");
  turn();
  submit(0, "a");
  submit(1, "a", 5);
  const std::vector<Due> due = turn();
  ASSERT_THAT(names(due), ElementsAre("a"));
  EXPECT_THAT(due[0].problem.message(),
              HasSubstr("ranks differ in 'a': rank 0 wants allreduce of float32[4], sum, rank "
                        "1 wants allreduce of float32[5], sum"));
  EXPECT_FALSE(ranks_[0]->is_waiting());
}

TEST_F(NegotiationTest, AFullCacheForgetsWhatWasNotUsedForLongest) {
  make(2, 2);
  for (const char* const name : {"a", "b", "a", "c", "a", "b"}) {
    submit(0, name);
    submit(1, name);
    EXPECT_THAT(names(turn()), ElementsAre(name));
  }
  EXPECT_EQ(announced_, 2U) << "c took the place of b";
}

TEST_F(NegotiationTest, ABitWhoseTensorIsForgottenInTheSameTurnIsAnnouncedInFull) {
  make(2, 1);
  submit(0, "a");
  submit(1, "a");
  turn();
  submit(0, "a");
  submit(0, "b");
  submit(1, "b");
  EXPECT_THAT(names(turn()), ElementsAre("b"));
  submit(1, "a");
  EXPECT_THAT(names(turn()), ElementsAre("a"));
}

TEST_F(NegotiationTest, WhatARankSubmitsBeforeItsJoinInTheSameTurnCounts) {
  for (const bool is_known : {false, true}) {
    ranks_.clear();
    make(2);
    if (is_known) {
      submit(0, "a");
      submit(1, "a");
      turn();
    }
    submit(0, "join", 0, Kind::kJoin);
    EXPECT_THAT(turn(), IsEmpty());
    submit(1, "a");
    submit(1, "join", 0, Kind::kJoin);
    const std::vector<Due> due = turn();
    ASSERT_EQ(due.size(), 2U);
    EXPECT_EQ(due[0].name, "a");
    EXPECT_TRUE(due[0].problem.ok()) << due[0].problem;
    EXPECT_FALSE(due[0].of_ranks[0].has_value());
    EXPECT_TRUE(due[0].of_ranks[1].has_value());
    EXPECT_EQ(due[1].last_joined, 1);
  }
}

TEST_F(NegotiationTest, WhatARankHasSubmittedBeforeItsJoinHasToFit) {
  make(2);
  submit(1, "a", 4);
  submit(1, "join", 0, Kind::kJoin);
  EXPECT_THAT(turn(), IsEmpty());
  submit(0, "a", 1000);
  const std::vector<Due> due = turn();
  ASSERT_THAT(names(due), ElementsAre("a"));
  EXPECT_THAT(due[0].problem.message(), HasSubstr("ranks differ in 'a': rank 0 wants allreduce of float32[1000], sum"));
  EXPECT_FALSE(ranks_[1]->is_pending("a"));
}

TEST_F(NegotiationTest, ABitOfAJoinedRankStandsBesideAnotherShape) {
  make(2);
  submit(0, "a");
  submit(1, "a");
  turn();
  submit(1, "a");
  submit(1, "join", 0, Kind::kJoin);
  submit(0, "a", 7);
  const std::vector<Due> due = turn();
  ASSERT_THAT(names(due), ElementsAre("a"));
  EXPECT_THAT(due[0].problem.message(), HasSubstr("ranks differ in 'a'"));
}

TEST_F(NegotiationTest, JoinedRanksAreNotWaitedFor) {
  make(3);
  for (std::size_t rank = 0; rank < 3; ++rank) submit(rank, "known");
  turn();
  submit(1, "join", 0, Kind::kJoin);
  submit(0, "known");
  submit(2, "known");
  submit(0, "new");
  submit(2, "new");
  submit(0, "rows", 4, Kind::kAllgather);
  submit(2, "rows", 4, Kind::kAllgather);
  const std::vector<Due> due = turn();
  ASSERT_THAT(names(due), testing::UnorderedElementsAre("known", "new", "rows"));
  for (const Due& one : due) {
    EXPECT_FALSE(one.of_ranks[1].has_value());
    EXPECT_EQ(one.problem.ok(), one.name != "rows") << one.problem;
  }
  submit(2, "join", 0, Kind::kJoin);
  EXPECT_THAT(turn(), IsEmpty());
  submit(0, "join", 0, Kind::kJoin);
  const std::vector<Due> last = turn();
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].last_joined, 0);
  for (const auto& rank : ranks_) EXPECT_FALSE(rank->is_waiting());
  for (std::size_t rank = 0; rank < 3; ++rank) submit(rank, "known");
  EXPECT_THAT(names(turn()), ElementsAre("known"));
}

}  // namespace
}  // namespace muster::collectives::negotiation_test
