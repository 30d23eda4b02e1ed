// How communicators come about, and how those that are left make a new one.
#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <mutex>
#include <numeric>
#include <set>

#include "collectives/call/communicator_name.h"
#include "collectives/group/communicator.h"
#include "tests/unit/collectives/support/ranks_in_threads.h"

namespace muster::collectives::forming_test {
namespace {

using base::Code;
using std::chrono::milliseconds;

TEST(CommunicatorNameTest, TellsGroupsApart) {
  // Equal in the lower half of an FNV hash.
  const std::vector<int> one{1, 389};
  const std::vector<int> other{2, 80};
  EXPECT_NE(name_of_group("world", one, 0), name_of_group("world", other, 0));
  const std::vector<int> forwards{1, 2, 3};
  const std::vector<int> backwards{3, 2, 1};
  EXPECT_NE(name_of_group("world", forwards, 0), name_of_group("world", backwards, 0));
  EXPECT_NE(name_of_group("world", forwards, 0), name_of_group("world", forwards, 1));
  EXPECT_EQ(name_of_group("world", forwards, 0), name_of_group("world", forwards, 0));
}

TEST(CommunicatorNameTest, StaysShortAndUnique) {
  std::set<std::string> names;
  std::string name = "world";
  const std::vector<int> members{0, 1};
  for (int depth = 0; depth < 100; ++depth) {
    for (const std::string& next :
         {name_of_part(name, 2'000'000'000, 2'000'000'000), name_of_group(name, members, 7)}) {
      EXPECT_LE(next.size(), 60U);
      EXPECT_TRUE(names.insert(next).second) << next;
      name = next;
    }
  }
}

TEST(FormingTest, GroupsOfGroupsHaveNoEnd) {
  RanksInThreads ranks({2});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    const std::vector<int> all{0, 1};
    std::shared_ptr<Communicator> deepest = comm;
    for (int depth = 0; depth < 12; ++depth) {
      auto made = depth % 2 == 0 ? deepest->group(all) : deepest->split(0, 0);
      ASSERT_TRUE(made.ok()) << made.status();
      deepest = *made;
    }
    EXPECT_TRUE(deepest->barrier().ok());
  });
}

TEST(FormingTest, TwoThreadsMaySplitAtOnce) {
  RanksInThreads ranks({2});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    const auto split = [&comm] {
      for (int i = 0; i < 30; ++i) {
        const auto made = comm->split(0, 0);
        ASSERT_TRUE(made.ok()) << made.status();
        ASSERT_TRUE((*made)->barrier().ok());
      }
    };
    std::thread other(split);
    split();
    other.join();
  });
}

TEST(FormingTest, RanksWithDifferentSettingsAreAllTold) {
  // Two on one host that differ, and one on another host.
  RanksInThreads ranks({2, 1}, {.algorithm = "hierarchical"});
  ranks.give(1, {.algorithm = "ring"});
  std::mutex mutex;
  std::vector<base::Status> told;
  const auto note = [&](const base::Status& status) {
    const std::lock_guard lock(mutex);
    told.push_back(status);
  };
  ranks.on_failed(note);
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    EXPECT_EQ(comm->rank(), 2);  // its host is of one mind
    note(comm->barrier());
  });
  ASSERT_EQ(told.size(), 3U);
  for (const base::Status& status : told) EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status;
  EXPECT_EQ(std::count_if(told.begin(), told.end(),
                          [](const base::Status& one) {
                            return one.message().find("is MUSTER_ALGORITHM the same for all ranks?") !=
                                   std::string::npos;
                          }),
            2);
}

TEST(FormingTest, ASettingThatDoesNotExistEndsItForAll) {
  RanksInThreads ranks({2});
  ranks.give(1, {.algorithm = "magic"});
  std::atomic<int> failed = 0;
  ranks.on_failed([&](const base::Status& status) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status;
    EXPECT_NE(status.message().find("magic"), std::string::npos) << status;
    ++failed;
  });
  ranks.run([](const std::shared_ptr<Communicator>&) { ADD_FAILURE() << "it was made"; });
  EXPECT_EQ(failed, 2);
}

// As soon as a rank has put it; what went wrong where nobody does.
std::string value_of(World& world, const std::string& key) {
  const auto found = world.get(key, milliseconds(20'000));
  return found.ok() ? *found : std::string(found.status().message());
}

// A communicator of two that works.
void expect_pair(const base::Result<std::shared_ptr<Communicator>>& made) {
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)->size(), 2);
  EXPECT_TRUE((*made)->barrier().ok());
}

// The ranks of one host each, of which the last is said to have died: no news of its end come.
TEST(ShrinkingTest, WhoWasBlamedIsLeftOutEverywhere) {
  RanksInThreads ranks({1, 1, 1});
  ranks.run_on({0, 1}, [](const std::shared_ptr<Communicator>& comm) {
    if (comm->rank() == 0) {
      comm->world().report_failure(comm->name(), {Code::kUnavailable, 2, "n3", "rank 2 (n3) was killed by signal 9"});
    }
    EXPECT_EQ(comm->barrier().code(), Code::kUnavailable);
    expect_pair(comm->shrink());
  });
}

// The program reports rank 2 as failed, as the drop-in does when the host of that rank is lost.
TEST(FailingTest, ARankThatTheProgramReportsAsFailedEndsTheOperations) {
  RanksInThreads ranks({1, 1, 1});
  ranks.run_on({0, 1}, [](const std::shared_ptr<Communicator>& comm) {
    comm->world().rank_failed(comm->rank(), "is this rank itself");
    comm->world().rank_failed(3, "does not exist");
    comm->world().rank_failed(2, "was lost with its host n3");
    const base::Status status = comm->barrier();
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_NE(status.message().find("rank 2 "), std::string::npos) << status;
    EXPECT_NE(status.message().find("was lost with its host n3"), std::string::npos) << status;
  });
}

// One rank has heard of an end, the other has not: they go on with what the first of them knows.
TEST(ShrinkingTest, RanksThatKnowDifferentThingsAgree) {
  RanksInThreads ranks({1, 1, 1}, {.deadline = milliseconds(3000)});
  ranks.run_on({0, 1}, [](const std::shared_ptr<Communicator>& comm) {
    // As the first rank says it; it shrinks later than the second one has looked.
    World& world = comm->world();
    if (comm->rank() == 0) {
      EXPECT_TRUE(world.put("left/world/0/0", "0,1").ok());
    }
    auto rest = comm->rank() == 0 ? comm->group(std::vector<int>{0, 1}) : comm->shrink();
    if (comm->rank() == 0) {
      EXPECT_EQ(value_of(world, "made/world/0/0/1"), "made");
      EXPECT_TRUE(world.put("shrunk/world/0/0", "made").ok());
    }
    expect_pair(rest);
  });
}

// Rank 2 is known to have died when the others shrink. Of rank 3's end they hear when they have agreed to go on with
// it.
TEST(ShrinkingTest, ARankThatEndsMeanwhileIsLeftOutByAll) {
  for (const std::vector<int>& hosts : {std::vector<int>{4}, {2, 2}, {1, 1, 1, 1}}) {
    RanksInThreads ranks(hosts);
    std::latch are_done(2);
    ranks.run([&](const std::shared_ptr<Communicator>& comm) {
      World& world = comm->world();
      if (comm->rank() == 2) are_done.wait();
      if (comm->rank() == 3) {
        EXPECT_EQ(value_of(world, "left/world/0/0"), "0,1,3");
      }
      if (comm->rank() >= 2) return;
      if (comm->rank() == 0) comm->cancel({Code::kUnavailable, 2, "n3", "rank 2 (n3) was killed by signal 9"});
      EXPECT_EQ(comm->barrier().code(), Code::kUnavailable);
      expect_pair(comm->shrink());
      are_done.count_down();
    });
  }
}

// Rank 1 is the first of its communicator: it says who is left, and ends before it says that all have made it.
TEST(ShrinkingTest, WhoDecidesMayEndMeanwhile) {
  RanksInThreads ranks({1, 1, 1, 1});
  std::latch are_done(2);
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    World& world = comm->world();
    if (comm->rank() == 0) {
      are_done.wait();
      return;
    }
    auto group = comm->group(std::vector<int>{1, 2, 3});
    ASSERT_TRUE(group.ok()) << group.status();
    const std::string name = (*group)->name();
    if (comm->rank() == 1) {
      EXPECT_TRUE(world.put("left/" + name + "/0/0", "0,1,2").ok());
      EXPECT_EQ(value_of(world, "made/" + name + "/0/0/2"), "made");
      return;
    }
    expect_pair((*group)->shrink());
    are_done.count_down();
  });
}

// All but `absent` shrink, and name it.
void check_absence_is_named(const std::vector<int>& hosts, int absent) {
  RanksInThreads ranks(hosts, {.deadline = milliseconds(4000)});
  std::latch are_done(std::accumulate(hosts.begin(), hosts.end(), 0) - 1);
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    if (comm->rank() == absent) {
      are_done.wait();
      return;
    }
    Failure why;
    const auto rest = comm->shrink(&why);
    EXPECT_EQ(rest.status().code(), Code::kDeadlineExceeded) << rest.status();
    EXPECT_EQ(why.rank, absent);
    EXPECT_NE(rest.status().message().find(fmt::format("rank {}", absent)), std::string::npos) << rest.status();
    are_done.count_down();
  });
}

// Also on a host whose own ranks have all come.
TEST(ShrinkingTest, WhoDoesNotShrinkIsNamedOnAllRanks) {
  check_absence_is_named({2, 1}, 2);
}

TEST(ShrinkingTest, WhoDoesNotTakePartIsNamed) {
  check_absence_is_named({1, 1}, 0);
}

TEST(ShrinkingTest, AFailureOfTheNewOneIsNotTheOldOnes) {
  RanksInThreads ranks({3}, {.deadline = milliseconds(4000)});
  std::latch is_done(1);
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    if (comm->rank() != 2) {
      EXPECT_EQ(comm->barrier().code(), Code::kDeadlineExceeded);
      EXPECT_EQ(comm->failure().rank, 2);
    }
    if (comm->rank() != 0) {
      is_done.wait();
      return;
    }
    Failure why;
    const auto pair = comm->group(std::vector<int>{0, 1}, &why);
    EXPECT_EQ(pair.status().code(), Code::kDeadlineExceeded) << pair.status();
    EXPECT_EQ(why.code, Code::kDeadlineExceeded);
    EXPECT_EQ(why.rank, 1);
    EXPECT_EQ(why.message, pair.status().message());
    is_done.count_down();
  });
}

TEST(ShrinkingTest, WhoDoesNotGiveItsMemoryIsNamed) {
  RanksInThreads ranks({2}, {.deadline = milliseconds(4000)});
  std::latch is_done(1);
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    if (comm->rank() == 0) {
      is_done.wait();
      return;
    }
    Failure why;
    const auto pair = comm->group(std::vector<int>{0, 1}, &why);
    EXPECT_EQ(pair.status().code(), Code::kDeadlineExceeded) << pair.status();
    EXPECT_EQ(why.rank, 0);
    is_done.count_down();
  });
}

}  // namespace
}  // namespace muster::collectives::forming_test
