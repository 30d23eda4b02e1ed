#include "agent/job/world_watch.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "base/net.h"

namespace muster::agent::world_watch_test {
namespace {

// A child with a thread of this name, as libmuster has it.
class Victim {
 public:
  explicit Victim(const char* thread) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::pthread_setname_np(::pthread_self(), thread);
      if (::write(ready[1], "x", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Victim() {
    ::kill(pid_, SIGKILL);
    EXPECT_EQ(::waitpid(pid_, nullptr, 0), pid_);
  }
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

TEST(LookAtWorlds, FindsRanksInWorldsOfAnotherSize) {
  const Victim alone("muster of 1");
  const Victim right("muster of 4");
  const Victim plain("python3");
  const auto found = look_at_worlds({{.rank = 0, .pid = alone.pid(), .size = 4},
                                     {.rank = 1, .pid = right.pid(), .size = 4},
                                     {.rank = 2, .pid = plain.pid(), .size = 4}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.at(0).size, 1);
  EXPECT_EQ(found.at(0).source, "libmuster");
}

TEST(LookAtWorlds, LooksAlsoAtDescendants) {
  const Victim alone("muster of 2");
  const auto found = look_at_worlds({{.rank = 7, .pid = ::getpid(), .size = 4}});
  ASSERT_EQ(found.count(7), 1U);
  EXPECT_EQ(found.at(7).size, 2);
}

TEST(LookAtWorlds, ARankThatHasEndedIsInNoWorld) {
  pid_t gone = 0;
  {
    const Victim victim("muster of 1");
    gone = victim.pid();
  }
  EXPECT_TRUE(look_at_worlds({{.rank = 0, .pid = gone, .size = 4}}).empty());
}

TEST(WorldWatch, ReportsEachRankOnce) {
  base::Loop loop;
  const Victim alone("muster of 1");
  std::vector<v1::RankWorld> sent;
  WorldWatch watch(loop,
                   {.ranks = [&] { return std::vector<WatchedRank>{{.rank = 3, .pid = alone.pid(), .size = 2}}; },
                    .send =
                        [&](v1::RankWorld world) {
                          sent.push_back(std::move(world));
                          loop.stop();
                        }},
                   std::chrono::milliseconds(1));
  watch.begin();
  loop.run();
  const base::Timer last = loop.after(std::chrono::milliseconds(200), [&] { loop.stop(); });
  loop.run();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].rank(), 3);
  EXPECT_EQ(sent[0].size(), 1);
}

}  // namespace
}  // namespace muster::agent::world_watch_test
