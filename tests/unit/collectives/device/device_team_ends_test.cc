// Operations that fail, what a team leaves behind, and memory that ranks share, on GPUs that are none
// (tests/programs/fake_cuda). Nothing here ran on a GPU.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/device/device_team.h"
#include "collectives/device/ipc_memory.h"
#include "collectives/device/ipc_trial.h"
#include "collectives/device/kernel_arguments.h"
#include "collectives/device/stream_gate.h"
#include "tests/programs/fake_cuda/trace.h"
#include "tests/unit/collectives/device/device_support.h"

namespace muster::collectives::device::device_team_ends_test {
namespace {

bool has_recorded(void* stream) {
  const std::string call = fmt::format(" cuEventRecord {} ", reinterpret_cast<std::uintptr_t>(stream));
  return std::string(fake_cuda_trace()).find(call) != std::string::npos;
}

// Rank 0 has told its device to say when it has come so far, and ends before it does. Nothing on the devices of the
// others waits for it: they have an error, and all that was theirs can be freed.
void end_before_the_device_comes() {
  const Settings settings(std::map<std::string, std::string>{{"MUSTER_DEVICE_PATH", "ipc"}});
  RanksInThreads ranks({3});
  std::latch are_attached(3);
  std::latch are_through(3);
  fake_cuda_trace_begin();
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    auto team = DeviceTeam::attach(*comm, 0);
    ASSERT_TRUE(team.ok()) << team.status();
    Never never((*team)->shared_gpu());
    {
      const Buffer buffer(**team, 4000);
      Caller caller(**team);
      std::thread end;
      are_attached.arrive_and_wait();
      if (comm->rank() == 0) {
        never.hold(caller.stream());
        end = std::thread([&] {
          while (!has_recorded((*team)->stream())) std::this_thread::yield();
          comm->cancel({base::Code::kUnavailable, 0, "here", "rank 0 was killed"});
        });
      }
      const base::Status done = caller.run([&](Route& route) {
        return route.allreduce({.input = buffer.data(), .output = buffer.data(), .count = 1000});
      });
      if (end.joinable()) end.join();
      EXPECT_EQ(done.code(), base::Code::kUnavailable) << done;
      EXPECT_EQ((*team)->is_quiet(), comm->rank() != 0);
      const std::shared_ptr<const Gpu> gpu = (*team)->shared_gpu();
      const auto end_of_stream = (*team)->mark(caller.stream());
      const auto end_of_work = (*team)->mark((*team)->stream());
      ASSERT_TRUE(end_of_stream.ok() && end_of_work.ok());
      are_through.arrive_and_wait();
      team->reset();  // of rank 0 it leaves what it cannot free
      if (comm->rank() == 0) {
        EXPECT_EQ(gpu->api().event_query(end_of_stream->get()), kCudaNotReady);
      }
      never.come();
      // The buffer is freed then, which the driver's emulation, unlike CUDA, does not put off for what runs.
      for (void* const event : {end_of_stream->get(), end_of_work->get()}) {
        while (gpu->api().event_query(event) == kCudaNotReady) std::this_thread::yield();
      }
    }
  });
}

// In a process of its own: what is left stays registered with the driver, at addresses that other tests have again.
TEST(DeviceTeamErrors, ADeviceThatDoesNotComeToItsEventHoldsNobody) {
  if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto in_a_process = [] {
    end_before_the_device_comes();
    std::fflush(stdout);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(in_a_process(), testing::ExitedWithCode(0), "");
}

// The driver that is none loads a kernel when it is launched first, and waits for the device then, as CUDA's may.
TEST(DeviceTeamErrors, LaunchesDoNotWaitForAStreamThatIsHeld) {
  if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  RanksInThreads ranks({1});
  with_teams(ranks, 1, [](Communicator&, std::unique_ptr<DeviceTeam>& team) {
    Caller caller(*team);
    const Buffer buffer(*team, 4000);
    auto gate = StreamGate::make(team->shared_gpu());
    ASSERT_TRUE(gate.ok());
    auto held = (*gate)->hold(caller.stream());
    ASSERT_TRUE(held.ok());
    const DeviceAddress place[] = {address_of(buffer.data())};
    const std::vector<Move> moves(kFewSegments + 1, Move{.from = 0, .to = place[0], .elements = 1});
    for (int type = 0; type < kDTypes; ++type) {
      const auto each = static_cast<DType>(type);
      ASSERT_TRUE(team->kernels()->reduce(team->stream(), place, place, 100, each, RedOp::kMax, {}).ok());
      ASSERT_TRUE(team->kernels()->transfer(team->stream(), moves, each, each).ok());
    }
    ASSERT_TRUE((*held)->release_behind(team->stream()).ok());
    caller.wait();
    held->reset();
  });
}

// The driver says that something is wrong before the news of a rank's end are there, as when its memory is gone.
TEST(DeviceTeamErrors, ARanksEndCountsMoreThanWhatTheDriverSaysOfIt) {
  if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  for (const char* const path : {"ipc", "nccl"}) {
    const Settings settings(
        std::map<std::string, std::string>{{"MUSTER_DEVICE_PATH", path}, {"FAKE_CUDA_DEVICES", "2"}});
    RanksInThreads ranks({2});
    std::latch is_failing(1);
    with_teams(ranks, 2, [&](Communicator& comm, std::unique_ptr<DeviceTeam>& team) {
      if (comm.rank() == 0) {
        is_failing.wait();
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
        while (std::chrono::steady_clock::now() < end) {
          ASSERT_EQ(comm.failure().code, base::Code::kOk) << path << ": " << comm.failure().message;
          std::this_thread::yield();
        }
        comm.cancel({base::Code::kUnavailable, 0, "here", "rank 0 was killed"});
        return;
      }
      setenv("FAKE_CUDA_FAIL", "cuEventQuery:1", 1);
      is_failing.count_down();
      const base::Status done = team->run({}, [](Route&) { return base::ok_status(); });
      unsetenv("FAKE_CUDA_FAIL");
      EXPECT_EQ(done.code(), base::Code::kUnavailable) << done;
      EXPECT_EQ(comm.failure().rank, 0);
    });
  }
}

// What others map is freed when they have closed it, and left to the driver where they have not.
TEST(DeviceTeamEnds, SharedMemoryIsNotFreedWhileOthersHaveItMapped) {
  if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  const Settings settings(std::map<std::string, std::string>{{"MUSTER_DEVICE_PATH", "ipc"}});
  enum class End { kTogether, kOneStays, kEachItself };
  for (const End how : {End::kTogether, End::kOneStays, End::kEachItself}) {
    const bool does_one_stay = how == End::kOneStays;
    RanksInThreads ranks({2});
    std::latch is_one_gone(1);
    std::latch has_begun(2);
    std::optional<Calls> calls;
    std::string seen;
    with_teams(ranks, 1, [&](Communicator& comm, std::unique_ptr<DeviceTeam>& team) {
      if (comm.rank() == 0) calls.emplace();
      has_begun.arrive_and_wait();
      if (does_one_stay && comm.rank() == 0) is_one_gone.wait();
      if (does_one_stay && comm.rank() == 1) {
        team.reset();
        seen = calls->all();
        is_one_gone.count_down();
      }
      // As an engine does when it ends well.
      if (how == End::kEachItself) comm.cancel({base::Code::kAborted, comm.rank(), "here", "a rank has shut down"});
      team.reset();
    });
    if (!does_one_stay) seen = calls->all();
    EXPECT_EQ(count_of(seen, "cuIpcCloseMemHandle"), does_one_stay ? 1 : 2) << seen;
    // Nobody has the trial's block mapped any more.
    EXPECT_EQ(count_of(seen, "cuMemFree"), does_one_stay ? 1 : 4) << seen;
    if (does_one_stay) continue;
    EXPECT_LT(seen.rfind("cuIpcCloseMemHandle"), seen.find("cuMemFree ")) << seen;
  }
}

// A rank that hears of no verdicts does not know whether its neighbour has the block of the trial mapped.
TEST(DeviceTeamEnds, TheTrialsBlockIsNotFreedWhereTheTrialFails) {
  const Settings settings(std::map<std::string, std::string>{{"FAKE_CUDA_DEVICES", "1"}});
  struct Offer {
    IpcMemoryHandle handle{};
    std::uint64_t is_made = 0;
  };
  const Calls calls;
  RanksInThreads ranks({2});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    if (comm->rank() == 1) {
      ASSERT_TRUE(gather_all(*comm, Offer{}).ok());  // as in the trial; then it ends
      comm->cancel({base::Code::kUnavailable, 1, "here", "rank 1 was killed"});
      return;
    }
    auto api = CudaApi::load();
    ASSERT_TRUE(api.ok()) << api.status();
    auto gpu = Gpu::open(*api, 0);
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    const auto trial = try_ipc(*comm, *gpu);
    EXPECT_EQ(trial.status().code(), base::Code::kUnavailable) << trial.status();
  });
  EXPECT_EQ(count_of(calls.all(), "cuIpcGetMemHandle"), 1) << calls.all();
  EXPECT_EQ(count_of(calls.all(), "cuMemFree"), 0) << calls.all();
}

base::Result<void*> allocate_on(DeviceTeam& team, std::size_t bytes) {
  void* data = nullptr;
  MUSTER_RETURN_IF_ERROR(team.run({}, [&](Route& route) {
    MUSTER_ASSIGN_OR_RETURN(data, route.allocate(bytes));
    return base::ok_status();
  }));
  return data;
}

TEST(DeviceTeamEnds, MemoryThatARankCannotMapIsNotFreedUnderThoseThatCan) {
  if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  const Settings settings(
      std::map<std::string, std::string>{{"MUSTER_DEVICE_PATH", "ipc"}, {"FAKE_CUDA_DEVICES", "2"}});
  RanksInThreads ranks({2});
  std::latch has_begun(2);
  std::latch have_failed(2);
  std::optional<Calls> calls;
  with_teams(ranks, 2, [&](Communicator& comm, std::unique_ptr<DeviceTeam>& team) {
    if (comm.rank() == 1) {
      calls.emplace();
      setenv("FAKE_CUDA_FAIL", "cuIpcOpenMemHandle_v2:1", 1);
    }
    has_begun.arrive_and_wait();
    const auto made = allocate_on(*team, 4000);
    // Rank 0 has it, and hears of it in the next operation.
    EXPECT_EQ(made.ok(), comm.rank() == 0) << made.status();
    EXPECT_FALSE(comm.barrier().ok());
    EXPECT_EQ(comm.failure().rank, 1);
    have_failed.arrive_and_wait();
    EXPECT_EQ(count_of(calls->all(), "cuMemFree"), 0) << calls->all();
  });
  unsetenv("FAKE_CUDA_FAIL");
}

// What others have mapped cannot be freed: a program that makes buffers again and again has to get the same ones.
TEST(DeviceTeamMemory, ABufferThatAllRanksHaveFreedIsUsedAgain) {
  if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  const Settings settings(std::map<std::string, std::string>{{"MUSTER_DEVICE_PATH", "ipc"}});
  RanksInThreads ranks({2});
  with_teams(ranks, 1, [](Communicator& comm, std::unique_ptr<DeviceTeam>& team) {
    const auto allocate = [&](std::size_t bytes) {
      const auto made = allocate_on(*team, bytes);
      EXPECT_TRUE(made.ok()) << made.status();
      return made.ok() ? *made : nullptr;
    };
    constexpr std::size_t kBlock = IpcMemory::kBlock;
    void* const first = allocate(kBlock);
    ASSERT_TRUE(team->route().release(first).ok());
    void* const second = allocate(comm.rank() == 0 ? 100 : kBlock);
    EXPECT_EQ(second, first);
    void* const third = allocate(100);
    EXPECT_NE(third, second);
    if (comm.rank() == 0) {
      ASSERT_TRUE(team->route().release(third).ok());
    }
    EXPECT_NE(allocate(100), third) << "rank 1 has not freed its own";
    ASSERT_TRUE(team->route().release(second).ok());
    EXPECT_NE(allocate(comm.rank() == 0 ? 100 : kBlock + 1), second) << "too small on rank 1";
    // It is what the others read.
    ASSERT_EQ(allocate(4 * 1000), second);
    auto* const values = static_cast<float*>(second);
    for (int i = 0; i < 1000; ++i) values[i] = static_cast<float>(comm.rank() + i);
    ASSERT_TRUE(comm.barrier().ok());
    const base::Status done = team->run(
        {}, [&](Route& route) { return route.allreduce({.input = second, .output = second, .count = 1000}); });
    ASSERT_TRUE(done.ok()) << done;
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(values[i], static_cast<float>(1 + 2 * i));
    ASSERT_TRUE(comm.barrier().ok());
  });
}

TEST(DeviceTeamMemory, TheRankWhoseGpuLacksItIsNamedByAll) {
  if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  const Settings settings(
      std::map<std::string, std::string>{{"MUSTER_DEVICE_PATH", "ipc"}, {"FAKE_CUDA_DEVICES", "3"}});
  RanksInThreads ranks({3});
  std::latch has_begun(3);
  with_teams(ranks, 3, [&](Communicator& comm, std::unique_ptr<DeviceTeam>& team) {
    if (comm.rank() == 0) setenv("FAKE_CUDA_MOST", "1000:1", 1);
    has_begun.arrive_and_wait();
    const base::Status done = team->run({}, [&](Route& route) {
      const base::Status allocated = route.allocate(4000).status();
      EXPECT_EQ(comm.failure().rank, 1) << "whichever rank is the first to tell";
      return allocated;
    });
    EXPECT_EQ(done.code(), base::Code::kResourceExhausted) << done;
    EXPECT_EQ(comm.failure().rank, 1) << done;
  });
  unsetenv("FAKE_CUDA_MOST");
}

TEST(DeviceTeamErrors, WhoHasNoMemoryForAnOperationEndsItForAll) {
  const Settings settings(std::map<std::string, std::string>{{"MUSTER_DEVICE_PATH", "staged"}});
  RanksInThreads ranks({2});
  with_teams(ranks, 1, [](Communicator& comm, std::unique_ptr<DeviceTeam>& team) {
    const Buffer buffer(*team, 4000);
    const base::Status done = team->run({}, [&](Route& route) -> base::Status {
      if (comm.rank() == 1) throw std::bad_alloc();
      return route.allreduce({.input = buffer.data(), .output = buffer.data(), .count = 1000});
    });
    EXPECT_EQ(done.code(), base::Code::kResourceExhausted) << done;
    EXPECT_NE(done.message().find("rank 1: the host ran out of memory"), std::string::npos) << done;
    EXPECT_EQ(comm.failure().rank, 1);
    EXPECT_TRUE(team->is_quiet());
  });
}

TEST(DeviceTeamErrors, DifferentCallsAreNamed) {
  if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  const Settings settings(std::map<std::string, std::string>{{"MUSTER_DEVICE_PATH", "ipc"}});
  RanksInThreads ranks({2});
  with_teams(ranks, 1, [](Communicator& comm, std::unique_ptr<DeviceTeam>& team) {
    const Buffer buffer(*team, 4000);
    const std::size_t count = comm.rank() == 0 ? 1000 : 999;
    const base::Status done = team->run({}, [&](Route& route) {
      return route.allreduce({.input = buffer.data(), .output = buffer.data(), .count = count});
    });
    EXPECT_EQ(done.code(), base::Code::kFailedPrecondition);
    EXPECT_NE(done.message().find("999"), std::string::npos) << done;
  });
}

}  // namespace
}  // namespace muster::collectives::device::device_team_ends_test
