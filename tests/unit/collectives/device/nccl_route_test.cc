// What is NCCL's own on the way of NcclRoute: parts of communicators, and errors that only NCCL sees. Ranks are
// threads, the NCCL is none (tests/programs/fake_cuda), and nothing here ran on a GPU.
#include "collectives/device/nccl_route.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <latch>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "collectives/device/device_team.h"
#include "tests/unit/collectives/device/device_support.h"
#include "tests/unit/collectives/support/ranks_in_threads.h"

extern "C" int fake_nccl_communicators();

namespace muster::collectives::device::nccl_route_test {
namespace {

using std::chrono::steady_clock;

class NcclRouteTest : public testing::Test {
 protected:
  static constexpr int kRanks = 4;
  void SetUp() override {
    if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  }
  void TearDown() override {
    if (Kernels::image().empty()) return;
    EXPECT_EQ(fake_nccl_communicators(), 0) << "what was made is given back";
  }
  // `body` of each rank, with its team.
  static void run(const std::function<void(Communicator&, DeviceTeam&)>& body, WorldOptions options = {}) {
    RanksInThreads ranks({2, 2}, std::move(options));
    with_teams(ranks, kRanks, [&](Communicator& comm, std::unique_ptr<DeviceTeam>& team) { body(comm, *team); });
  }
  static Settings settings(std::map<std::string, std::string> more = {}) {
    more.merge(std::map<std::string, std::string>{
        {"MUSTER_DEVICE_PATH", "nccl"}, {"FAKE_CUDA_DEVICES", "4"}, {"FAKE_CUDA_DELAY_US", "50"}});
    return Settings(std::move(more));
  }
};

// As a user's thread does it through the C ABI.
base::Result<DeviceTeam::Split> split(Communicator& comm, DeviceTeam& team, int color, int key) {
  DeviceTeam::Split made;
  const base::Status done = comm.start([&] {
                                  MUSTER_ASSIGN_OR_RETURN(made, team.split(color, key));
                                  return base::ok_status();
                                })
                                ->wait();
  if (!done.ok()) return done;
  return made;
}

// What all ranks of `team` have, summed up; -1 after an error.
float sum_of(DeviceTeam& team, float own) {
  Caller caller(team);
  const Buffer buffer(team, sizeof own);
  buffer.write(&own, caller.stream());
  const base::Status done = caller.run(
      [&](Route& route) { return route.allreduce({.input = buffer.data(), .output = buffer.data(), .count = 1}); });
  EXPECT_TRUE(done.ok()) << done;
  buffer.read(&own, caller.stream());
  caller.wait();
  return done.ok() ? own : -1;
}

TEST_F(NcclRouteTest, APartIsSplitOffAndWorksBesideItsParent) {
  const Settings set = settings();
  std::latch are_split(kRanks);
  run([&](Communicator& comm, DeviceTeam& team) {
    const int all = comm.size();
    // Odd and even ranks, backwards.
    auto half = split(comm, team, comm.rank() % 2, -comm.rank());
    ASSERT_TRUE(half.ok()) << half.status();
    EXPECT_FALSE(half->nccl.comm.is_empty());
    are_split.arrive_and_wait();
    EXPECT_EQ(fake_nccl_communicators(), 2 * all);
    auto part = DeviceTeam::attach(*half->communicator, comm.rank(), std::move(half->nccl));
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_EQ(fake_nccl_communicators(), 2 * all) << "none was formed anew";
    EXPECT_EQ(sum_of(**part, 1.0F + static_cast<float>(comm.rank())), comm.rank() % 2 == 0 ? 4 : 6);
    EXPECT_EQ(sum_of(team, 1), static_cast<float>(all));
    // The order of ranks is that of the communicator: NCCL's roots are its ranks.
    Caller caller(**part);
    auto value = static_cast<float>(comm.rank());
    const Buffer buffer(**part, sizeof value);
    buffer.write(&value, caller.stream());
    ASSERT_TRUE(caller.run([&](Route& route) { return route.broadcast(buffer.data(), sizeof value, 0); }).ok());
    buffer.read(&value, caller.stream());
    caller.wait();
    EXPECT_EQ(value, comm.rank() % 2 == 0 ? 2 : 3);
    part->reset();
    EXPECT_EQ(sum_of(team, 2), static_cast<float>(2 * all)) << "the parent goes on without its part";
  });
}

TEST_F(NcclRouteTest, RanksOutsideOfAPartTakePart) {
  const Settings set = settings();
  run([](Communicator& comm, DeviceTeam& team) {
    auto made = split(comm, team, comm.rank() == 0 ? -7 : 3, 0);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->communicator == nullptr, comm.rank() == 0);
    EXPECT_EQ(made->nccl.comm.is_empty(), comm.rank() == 0);
    EXPECT_EQ(sum_of(team, 1), 4);
  });  // parts that nobody attaches are given back
}

TEST_F(NcclRouteTest, APartIsNotUsedWhereARankBringsNone) {
  const Settings set = settings({{"FAKE_CUDA_DEVICES", "5"}});
  run([](Communicator& comm, DeviceTeam& team) {
    auto made = split(comm, team, 0, 0);
    ASSERT_TRUE(made.ok()) << made.status();
    // Rank 0 changes its GPU.
    auto again = DeviceTeam::attach(*made->communicator, comm.rank() == 0 ? 4 : comm.rank(), std::move(made->nccl));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(sum_of(**again, 1), 4);
    EXPECT_EQ(sum_of(team, 1), 4);
  });
}

TEST_F(NcclRouteTest, WhereNcclCannotSplitPartsAreFormedByTheirOwnRanks) {
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"FAKE_NCCL_VERSION", "21805"}, {"NCCL_COMM_SPLIT_SHARE_RESOURCES", "1"}}) {
    const Settings set = settings({{name, value}});
    run([](Communicator& comm, DeviceTeam& team) {
      auto made = split(comm, team, comm.rank() / 2, 0);
      ASSERT_TRUE(made.ok()) << made.status();
      EXPECT_TRUE(made->nccl.comm.is_empty());
      auto part = DeviceTeam::attach(*made->communicator, comm.rank(), std::move(made->nccl));
      ASSERT_TRUE(part.ok()) << part.status();
      EXPECT_EQ(sum_of(**part, 1), 2);
    });
  }
}

TEST_F(NcclRouteTest, TwoThreadsMaySplitAtOnce) {
  const Settings set = settings();
  run([](Communicator& comm, DeviceTeam& team) {
    const auto several = [&] {
      for (int i = 0; i < 5; ++i) {
        auto made = split(comm, team, 0, 0);
        ASSERT_TRUE(made.ok()) << made.status();
        auto part = DeviceTeam::attach(*made->communicator, comm.rank(), std::move(made->nccl));
        ASSERT_TRUE(part.ok()) << part.status();
        EXPECT_EQ(sum_of(**part, 1), 4);
      }
    };
    std::thread other(several);
    several();
    other.join();
  });
}

TEST_F(NcclRouteTest, ARankThatFailsToSplitEndsItForAllAndNobodyHangs) {
  const Settings set = settings({{"FAKE_NCCL_FAIL", "ncclCommSplit:1"}});
  run([](Communicator& comm, DeviceTeam& team) {
    const auto made = split(comm, team, 0, 0);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(comm.failure().rank, 1) << made.status();
    EXPECT_NE(made.status().message().find("ncclCommSplit"), std::string::npos) << made.status();
    EXPECT_FALSE(comm.barrier().ok());
  });
}

TEST_F(NcclRouteTest, ARankThatDiesWhileOthersSplitIsNamed) {
  const Settings set = settings();
  run([](Communicator& comm, DeviceTeam& team) {
    if (comm.rank() != 3) {
      const auto made = split(comm, team, 0, 0);
      EXPECT_EQ(made.status().code(), base::Code::kUnavailable) << made.status();
      EXPECT_EQ(comm.failure().rank, 3);
      return;
    }
    // It comes so far that the others are in NCCL, and no further.
    const auto dies = [&comm] {
      const auto met = agree(comm, {.call = {.op = Op::kSplit}, .in_region = 1});
      comm.cancel({base::Code::kUnavailable, 3, "there", "rank 3 was killed"});
      return met.ok() ? base::Status(base::Code::kAborted, "killed") : met.status();
    };
    EXPECT_FALSE(comm.split(0, 0, nullptr, dies).ok());
  });
}

// The operation was enqueued, and will not end: only NCCL knows.
TEST_F(NcclRouteTest, WhatBreaksInNcclsNetworkIsAnErrorAndNoHang) {
  const Settings set = settings();
  run([](Communicator& comm, DeviceTeam& team) {
    EXPECT_EQ(sum_of(team, 1), 4);
    ASSERT_TRUE(comm.barrier().ok());
    if (comm.rank() == 0) setenv("FAKE_NCCL_FAIL", "network", 1);
    ASSERT_TRUE(comm.barrier().ok());
    const Buffer buffer(team, 4);
    const base::Status done = team.run({}, [&](Route& route) {
      return route.allreduce({.input = buffer.data(), .output = buffer.data(), .count = 1});
    });
    EXPECT_FALSE(done.ok());
    EXPECT_NE(done.message().find("NCCL error 6"), std::string::npos) << done;
    EXPECT_FALSE(comm.barrier().ok());
  });
  unsetenv("FAKE_NCCL_FAIL");
}

// What NCCL says of a rank that is gone is not what the user hears, where the news come.
TEST_F(NcclRouteTest, ARanksEndCountsMoreThanWhatNcclSaysOfIt) {
  const Settings set = settings();
  std::latch are_enqueued(kRanks - 1);
  run([&](Communicator& comm, DeviceTeam& team) {
    ASSERT_TRUE(comm.barrier().ok());
    if (comm.rank() == 0) setenv("FAKE_NCCL_FAIL", "network", 1);
    ASSERT_TRUE(comm.barrier().ok());
    const Buffer buffer(team, 4);
    const base::Status done = team.run({}, [&](Route& route) {
      const base::Status enqueued = route.allreduce({.input = buffer.data(), .output = buffer.data(), .count = 1});
      if (comm.rank() != 2) {
        are_enqueued.count_down();
        return enqueued;
      }
      are_enqueued.wait();
      comm.cancel({base::Code::kUnavailable, 2, "there", "rank 2 was killed"});
      return enqueued;
    });
    EXPECT_EQ(done.code(), base::Code::kUnavailable) << done;
    EXPECT_EQ(comm.failure().rank, 2);
  });
  unsetenv("FAKE_NCCL_FAIL");
}

TEST_F(NcclRouteTest, WhatNcclNeverFinishesEndsAtTheDeadline) {
  const Settings set = settings({{"FAKE_NCCL_FAIL", "stall"}});
  RanksInThreads ranks({2}, {.deadline = std::chrono::milliseconds(300), .join_deadline = std::chrono::seconds(2)});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    const auto begin = steady_clock::now();
    const auto team = DeviceTeam::attach(*comm, comm->rank());
    EXPECT_EQ(team.status().code(), base::Code::kDeadlineExceeded) << team.status();
    EXPECT_NE(team.status().message().find("ncclCommInitRankConfig"), std::string::npos) << team.status();
    EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(10));
    EXPECT_EQ(comm->failure().rank, -1);
  });
}

// A stream of the program's waits for something that comes when collectives have gone on, and what NCCL connects waits
// for it: nothing is left to be connected.
TEST_F(NcclRouteTest, OperationsAreWarmWhenRanksAreAttached) {
  const Settings set = settings({{"FAKE_CUDA_WAITS", "1"}});
  std::latch are_attached(kRanks);
  std::latch are_done(kRanks);
  run([&](Communicator& comm, DeviceTeam& team) {
    auto half = split(comm, team, comm.rank() % 2, 0);
    ASSERT_TRUE(half.ok()) << half.status();
    auto part = DeviceTeam::attach(*half->communicator, comm.rank(), std::move(half->nccl));
    ASSERT_TRUE(part.ok()) << part.status();
    const std::size_t ranks = 2;
    const Buffer large(team, kRanks * 40);
    Never never(team.shared_gpu());
    const Stream stream = *make_stream(team.shared_gpu());
    are_attached.arrive_and_wait();
    never.hold(stream.get());
    for (DeviceTeam* const one : {&team, part->get()}) {
      auto* const all = static_cast<std::byte*>(large.data());
      EXPECT_TRUE(one->run({},
                           [&](Route& route) {
                             MUSTER_RETURN_IF_ERROR(route.allreduce({.input = all, .output = all, .count = 10}));
                             MUSTER_RETURN_IF_ERROR(route.broadcast(all, 40, 0));
                             MUSTER_RETURN_IF_ERROR(route.allgather(all + kRanks * 40 - 40, all, 20));
                             return route.reduce_scatter(
                                 {.scale = {.before = 2}, .input = all, .output = all, .count = ranks});
                           })
                      .ok());
    }
    are_done.arrive_and_wait();
    never.come();
  });
}

// On one rank, it counts for all. The others' environment is the same here: threads.
TEST_F(NcclRouteTest, PairsAreConnectedWhenRanksAreAttachedWhereThatIsAskedFor) {
  const Settings set = settings({{"FAKE_CUDA_WAITS", "1"}, {"MUSTER_WARM_ALLTOALL", "1"}});
  std::latch are_attached(kRanks);
  std::latch are_done(kRanks);
  run([&](Communicator&, DeviceTeam& team) {
    const Buffer in(team, kRanks);
    const Buffer out(team, kRanks);
    Never never(team.shared_gpu());
    const Stream stream = *make_stream(team.shared_gpu());
    std::vector<Slice> blocks;
    for (std::size_t rank = 0; rank < kRanks; ++rank) blocks.push_back({rank, 1});
    are_attached.arrive_and_wait();
    never.hold(stream.get());
    EXPECT_TRUE(team.run({}, [&](Route& route) { return route.alltoall(in.data(), blocks, out.data(), blocks); }).ok());
    are_done.arrive_and_wait();
    never.come();
  });
}

TEST_F(NcclRouteTest, ARankThatFailsAtItsFirstOperationsIsHeardByAll) {
  const Settings set = settings({{"FAKE_NCCL_FAIL", "ncclBroadcast:1"}});
  RanksInThreads ranks({2});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    const auto begin = steady_clock::now();
    const auto team = DeviceTeam::attach(*comm, comm->rank());
    ASSERT_FALSE(team.ok());
    EXPECT_NE(team.status().message().find("the first ncclBroadcast: "), std::string::npos) << team.status();
    EXPECT_EQ(comm->failure().rank, 1);
    EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(10));
  });
}

// It has said what it calls, and stops before it is on its device: the kernels of the others would wait for ever.
TEST_F(NcclRouteTest, ARankThatStopsOnItsWayToTheDeviceEndsAtTheDeadline) {
  const Settings set = settings();
  run(
      [](Communicator& comm, DeviceTeam& team) {
        const Buffer buffer(team, 4);
        const ReduceTask task{.input = buffer.data(), .output = buffer.data(), .count = 1};
        if (comm.rank() == 3) {
          EXPECT_TRUE(agree(comm, {.call = call_of(Op::kAllreduce, task)}).ok());
          return;
        }
        const base::Status done = team.run({}, [&](Route& route) { return route.allreduce(task); });
        EXPECT_EQ(done.code(), base::Code::kDeadlineExceeded) << done;
        EXPECT_TRUE(team.is_quiet());
      },
      {.deadline = std::chrono::seconds(2)});
}

// As where a rank of another host is stopped when its kernel is on its device: NCCL's threads say nothing.
TEST_F(NcclRouteTest, WhatNeverEndsOnTheDeviceEndsAtTheDeadline) {
  const Settings set = settings();
  std::latch has_begun(kRanks);
  run(
      [&](Communicator& comm, DeviceTeam& team) {
        EXPECT_EQ(sum_of(team, 1), 4);
        if (comm.rank() == 0) setenv("FAKE_NCCL_FAIL", "silence", 1);
        has_begun.arrive_and_wait();
        const Buffer buffer(team, 4);
        const base::Status done = team.run({}, [&](Route& route) {
          return route.allreduce({.input = buffer.data(), .output = buffer.data(), .count = 1});
        });
        EXPECT_EQ(done.code(), base::Code::kDeadlineExceeded) << done;
        EXPECT_NE(done.message().find("MUSTER_OPERATION_TIMEOUT"), std::string::npos) << done;
        EXPECT_EQ(comm.failure().rank, -1);
        EXPECT_TRUE(team.is_quiet());
      },
      {.deadline = std::chrono::seconds(2)});
  unsetenv("FAKE_NCCL_FAIL");
}

// The program's stream may take its time.
TEST_F(NcclRouteTest, TimeBeforeTheDeviceHasComeToAnOperationDoesNotCount) {
  const Settings set = settings();
  constexpr auto kDeadline = std::chrono::seconds(3);  // of all that ranks wait for here
  run(
      [&](Communicator&, DeviceTeam& team) {
        Never never(team.shared_gpu());
        Caller caller(team);
        const Buffer buffer(team, 4);
        never.hold(caller.stream());
        std::thread program([&] {
          const auto end = steady_clock::now() + kDeadline + std::chrono::seconds(1);
          while (steady_clock::now() < end) std::this_thread::yield();
          never.come();
        });
        const base::Status done = caller.run([&](Route& route) {
          return route.allreduce({.input = buffer.data(), .output = buffer.data(), .count = 1});
        });
        program.join();
        EXPECT_TRUE(done.ok()) << done;
      },
      {.deadline = kDeadline});
}

TEST_F(NcclRouteTest, AnErrorOfTheDriversIsToldAsOne) {
  const Settings set = settings({{"FAKE_CUDA_FAIL", "context:1"}});
  RanksInThreads ranks({2});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    const auto team = DeviceTeam::attach(*comm, comm->rank());
    EXPECT_EQ(team.status().code(), base::Code::kInternal) << team.status();
    EXPECT_NE(team.status().message().find("CUDA error 700"), std::string::npos) << team.status();
    EXPECT_EQ(comm->failure().rank, 1);
  });
}

TEST_F(NcclRouteTest, WhereAGpuHasNoMemoryForItRanksGoThroughTheHost) {
  for (const bool is_named : {false, true}) {
    const Settings set =
        settings({{"FAKE_CUDA_MOST", "4194304:2"}, {"MUSTER_DEVICE_PATH", is_named ? "nccl" : "auto"}});
    RanksInThreads ranks({2, 2});
    ranks.run([&](const std::shared_ptr<Communicator>& comm) {
      auto team = DeviceTeam::attach(*comm, comm->rank());
      EXPECT_TRUE(comm->barrier().ok());
      const std::string why = team.ok() ? (*team)->why() : std::string(team.status().message());
      EXPECT_NE(why.find("the GPU of rank 2 has no memory left for 33554432 bytes"), std::string::npos) << why;
      ASSERT_EQ(team.ok(), !is_named);
      if (is_named) return;
      EXPECT_EQ((*team)->path(), Path::kStaged);
      EXPECT_EQ(sum_of(**team, 1), 4);
    });
  }
}

TEST_F(NcclRouteTest, ARankThatCannotFormIsHeardByAll) {
  const Settings set = settings({{"FAKE_NCCL_FAIL", "ncclCommInitRankConfig"}});
  RanksInThreads ranks({2});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    const auto team = DeviceTeam::attach(*comm, comm->rank());
    ASSERT_FALSE(team.ok());
    EXPECT_NE(team.status().message().find("no socket interface found"), std::string::npos) << team.status();
    EXPECT_FALSE(comm->barrier().ok());
  });
}

}  // namespace
}  // namespace muster::collectives::device::nccl_route_test
