// Ranks that are threads, on GPUs that are none (tests/programs/fake_cuda): that each path gives what the collectives
// for the processor give, whatever the devices' delays, and that failures are errors. Nothing here ran on a GPU.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <latch>
#include <map>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "collectives/device/device_team.h"
#include "collectives/device/ipc_memory.h"
#include "collectives/device/kernel_arguments.h"
#include "collectives/device/stream_gate.h"
#include "tests/programs/fake_cuda/capture.h"
#include "tests/programs/fake_cuda/trace.h"
#include "tests/unit/collectives/device/device_support.h"
#include "tests/unit/collectives/support/ranks_in_threads.h"

namespace muster::collectives::device {
namespace {

std::vector<float> values_of(int rank, std::size_t count, unsigned seed) {
  std::mt19937 random(seed * 1000 + static_cast<unsigned>(rank));
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 8;
  return values;
}

struct Way {
  const char* path;
  int devices;
  std::vector<int> hosts;
};
std::ostream& operator<<(std::ostream& out, const Way& way) {
  return out << way.path << " on " << way.hosts.size() << " hosts, " << way.hosts.front() << " ranks on the first";
}

class DeviceTeamTest : public testing::TestWithParam<Way> {
 protected:
  DeviceTeamTest()
      : settings_({{"MUSTER_DEVICE_PATH", GetParam().path},
                   {"FAKE_CUDA_DEVICES", std::to_string(GetParam().devices)},
                   {"FAKE_CUDA_DELAY_US", "200"}}),
        ranks_(GetParam().hosts) {}
  void SetUp() override {
    if (Kernels::image().empty() && std::string(GetParam().path) != "staged") GTEST_SKIP() << "built without nvcc";
  }
  // Ranks begin `body` when all are attached, and their buffers go when all are through.
  void run(const std::function<void(Communicator&, DeviceTeam&)>& body) {
    std::latch are_attached(ranks_.size());
    std::latch are_through(ranks_.size());
    ranks_.run([&](const std::shared_ptr<Communicator>& comm) {
      auto team = DeviceTeam::attach(*comm, comm->rank() % GetParam().devices);
      are_attached.arrive_and_wait();
      EXPECT_TRUE(team.ok()) << team.status();
      if (team.ok()) {
        EXPECT_EQ(name_of((*team)->path()), GetParam().path);
        body(*comm, **team);
      }
      are_through.arrive_and_wait();
    });
  }
  const Settings settings_;
  RanksInThreads ranks_;
};

TEST_P(DeviceTeamTest, AllreducesAsTheProcessorDoes) {
  run([](Communicator& comm, DeviceTeam& team) {
    Caller caller(team);
    unsigned seed = 0;
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{70'001}, std::size_t{2'500'000}}) {
      for (const RedOp op : {RedOp::kSum, RedOp::kAvg, RedOp::kMax}) {
        for (const double before : {1.0, 0.5}) {
          for (const bool in_place : {true, false}) {
            if (count > 100'000 && (op != RedOp::kSum || before != 1)) continue;
            std::vector<float> in = values_of(comm.rank(), count, ++seed);
            std::vector<float> out(count, -1);
            std::vector<float> expected(count);
            const Scale scale{.before = before, .after = before};
            const Buffer source(team, 4 * count);
            const Buffer target(team, 4 * count);
            source.write(in.data(), caller.stream());
            const base::Status done = caller.run([&](Route& route) {
              return route.allreduce({.type = DType::kF32,
                                      .op = op,
                                      .scale = scale,
                                      .input = source.data(),
                                      .output = in_place ? source.data() : target.data(),
                                      .count = count});
            });
            ASSERT_TRUE(done.ok()) << done;
            (in_place ? source : target).read(out.data(), caller.stream());
            caller.wait();
            ASSERT_TRUE(comm.allreduce(in.data(), expected.data(), count, DType::kF32, op, scale).ok());
            ASSERT_EQ(out, expected) << count << " " << name_of(op);
          }
        }
      }
    }
  });
}

TEST_P(DeviceTeamTest, OperationsThatFollowEachOtherAreInOrder) {
  run([](Communicator& comm, DeviceTeam& team) {
    Caller caller(team);
    constexpr std::size_t kCount = 5000;
    std::vector<float> values(kCount, 1);
    std::vector<float> out(kCount);
    const Buffer buffer(team, 4 * kCount);
    buffer.write(values.data(), caller.stream());
    float expected = 1;
    for (int i = 0; i < 12; ++i) {
      const base::Status done = caller.run([&](Route& route) {
        return route.allreduce({.input = buffer.data(), .output = buffer.data(), .count = kCount});
      });
      ASSERT_TRUE(done.ok()) << done;
      expected *= static_cast<float>(comm.size());
    }
    buffer.read(out.data(), caller.stream());
    caller.wait();
    ASSERT_EQ(out, std::vector<float>(kCount, expected));
  });
}

TEST_P(DeviceTeamTest, BuffersOfTheTeamAreReducedToo) {
  run([](Communicator& comm, DeviceTeam& team) {
    Caller caller(team);
    constexpr std::size_t kCount = 40'003;
    void* data = nullptr;
    const base::Status allocated = team.run({}, [&](Route& route) {
      MUSTER_ASSIGN_OR_RETURN(data, route.allocate(4 * kCount + 64));
      return base::ok_status();
    });
    ASSERT_TRUE(allocated.ok()) << allocated;
    for (const std::size_t offset : {std::size_t{0}, std::size_t{4}}) {
      std::vector<float> in = values_of(comm.rank(), kCount, 77);
      std::vector<float> out(kCount);
      std::vector<float> expected(kCount);
      auto* const place = static_cast<std::byte*>(data) + offset;
      const auto copy = [&](const void* to, const void* from) {
        ASSERT_TRUE(team.gpu()
                        .call("copy", team.gpu().api().copy_async, address_of(to), address_of(from), 4 * kCount,
                              caller.stream())
                        .ok());
      };
      copy(place, in.data());
      const base::Status done =
          caller.run([&](Route& route) { return route.allreduce({.input = place, .output = place, .count = kCount}); });
      ASSERT_TRUE(done.ok()) << done;
      copy(out.data(), place);
      caller.wait();
      ASSERT_TRUE(comm.allreduce(in.data(), expected.data(), kCount, DType::kF32, RedOp::kSum, {}).ok());
      ASSERT_EQ(out, expected);
    }
    EXPECT_TRUE(team.route().release(data).ok());
    EXPECT_EQ(team.route().release(data).status().code(), base::Code::kInvalidArgument);
  });
}

TEST_P(DeviceTeamTest, MovesDataAsTheProcessorDoes) {
  run([](Communicator& comm, DeviceTeam& team) {
    Caller caller(team);
    const auto ranks = static_cast<std::size_t>(comm.size());
    for (const std::size_t count : {std::size_t{3}, std::size_t{10'007}, std::size_t{1'500'000}}) {
      const std::vector<std::size_t> counts(ranks, count);
      std::vector<float> in = values_of(comm.rank(), ranks * count, 5);
      const Buffer source(team, 4 * ranks * count);
      const Buffer target(team, 4 * ranks * count);
      source.write(in.data(), caller.stream());
      const auto check = [&](const char* what, std::size_t elements, const Buffer& result,
                             const std::vector<float>& expected) {
        std::vector<float> out(ranks * count);
        result.read(out.data(), caller.stream());
        caller.wait();
        for (std::size_t i = 0; i < elements; ++i) ASSERT_EQ(out[i], expected[i]) << what << " " << count << ", " << i;
      };
      std::vector<float> expected(ranks * count);
      ASSERT_TRUE(
          caller.run([&](Route& route) { return route.allgather(source.data(), target.data(), 4 * count); }).ok());
      ASSERT_TRUE(comm.allgather(in.data(), expected.data(), counts, DType::kF32, true).ok());
      check("allgather", ranks * count, target, expected);
      ASSERT_TRUE(caller
                      .run([&](Route& route) {
                        return route.reduce_scatter({.input = source.data(), .output = target.data(), .count = count});
                      })
                      .ok());
      ASSERT_TRUE(comm.reduce_scatter(in.data(), expected.data(), counts, DType::kF32, RedOp::kSum).ok());
      check("reduce_scatter", count, target, expected);
      const int root = comm.size() - 1;
      ASSERT_TRUE(caller.run([&](Route& route) { return route.broadcast(source.data(), 4 * count, root); }).ok());
      ASSERT_TRUE(comm.broadcast(in.data(), count, DType::kF32, root).ok());
      check("broadcast", count, source, in);
    }
  });
}

TEST_P(DeviceTeamTest, ARankThatGivesUpFreesTheOthers) {
  if (ranks_.size() == 1) GTEST_SKIP() << "there are no others";
  run([](Communicator& comm, DeviceTeam& team) {
    Caller caller(team);
    const Buffer buffer(team, 4000);
    if (comm.rank() == 0) {
      comm.cancel({base::Code::kUnavailable, 0, "here", "rank 0 was killed"});
      return;
    }
    const base::Status done = caller.run([&](Route& route) {
      return route.allreduce({.input = buffer.data(), .output = buffer.data(), .count = 1000});
    });
    EXPECT_EQ(done.code(), base::Code::kUnavailable) << done;
    EXPECT_EQ(comm.failure().rank, 0);
  });
}

// Of a thread of the program's, in the driver's default mode, while ranks attach, reduce and end.
TEST_P(DeviceTeamTest, ACaptureOfAnotherThreadGoesOn) {
  constexpr int kGlobal = 0;
  const std::shared_ptr<const Gpu> gpu = *Gpu::open(*CudaApi::load(), 0);
  const Stream stream = *make_stream(gpu);
  ASSERT_EQ(cuStreamBeginCapture_v2(stream.get(), kGlobal), kCudaSuccess);
  run([](Communicator&, DeviceTeam& team) {
    Caller caller(team);
    const Buffer buffer(team, 40'000);
    const base::Status done = caller.run([&](Route& route) {
      return route.allreduce({.input = buffer.data(), .output = buffer.data(), .count = 10'000});
    });
    EXPECT_TRUE(done.ok()) << done;
  });
  void* nodes = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream.get(), &nodes), kCudaSuccess);
  EXPECT_EQ(nodes, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Ways, DeviceTeamTest,
                         testing::Values(Way{"staged", 1, {1}}, Way{"staged", 1, {3}}, Way{"staged", 1, {2, 1}},
                                         Way{"ipc", 1, {1}}, Way{"ipc", 1, {2}}, Way{"ipc", 1, {4}}, Way{"ipc", 3, {3}},
                                         Way{"nccl", 1, {1}}, Way{"nccl", 3, {3}}, Way{"nccl", 3, {2, 1}}));

TEST(DeviceTeamErrors, ARankWithoutAGpuIsNamedAndTheCommunicatorGoesOn) {
  RanksInThreads ranks({2});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    const auto team = DeviceTeam::attach(*comm, comm->rank() == 1 ? 7 : 0);
    ASSERT_FALSE(team.ok());
    const bool is_named = team.status().message().find(comm->rank() == 1 ? "no GPU 7" : "rank 1") != std::string::npos;
    EXPECT_TRUE(is_named) << team.status();
    EXPECT_TRUE(comm->barrier().ok());
    const auto second = DeviceTeam::attach(*comm, 0);
    EXPECT_TRUE(second.ok()) << second.status();
    EXPECT_TRUE(comm->barrier().ok());
  });
}

TEST(DeviceTeamErrors, ADriverWithoutModesOfCapturesWillDo) {
  auto api = std::make_shared<CudaApi>(**CudaApi::load());
  ASSERT_NE(api->exchange_capture_mode, nullptr);
  api->exchange_capture_mode = nullptr;
  auto gpu = Gpu::open(api, 0);
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  EXPECT_TRUE(allocate(*gpu, 100).ok());
}

TEST(DeviceTeamErrors, WhatTheDriverRefusesEndsTheCommunicatorForAll) {
  const Settings settings(
      std::map<std::string, std::string>{{"FAKE_CUDA_FAIL", "cuMemHostRegister_v2"}, {"MUSTER_DEVICE_PATH", "ipc"}});
  if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  RanksInThreads ranks({2});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    const auto team = DeviceTeam::attach(*comm, 0);
    ASSERT_FALSE(team.ok());
    EXPECT_FALSE(comm->barrier().ok());
  });
}

// As between containers with process namespaces of their own.
TEST(DeviceTeamErrors, WhereCudaIpcDoesNotWorkRanksGoThroughTheHost) {
  if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  for (const char* const function : {"cuIpcOpenMemHandle_v2", "cuIpcGetMemHandle"}) {
    for (const bool is_named : {false, true}) {
      const Settings settings(std::map<std::string, std::string>{{"FAKE_CUDA_FAIL", function},
                                                                 {"MUSTER_DEVICE_PATH", is_named ? "ipc" : "auto"}});
      RanksInThreads ranks({3});
      ranks.run([&](const std::shared_ptr<Communicator>& comm) {
        const auto team = DeviceTeam::attach(*comm, 0);
        EXPECT_TRUE(comm->barrier().ok());
        const std::string why = team.ok() ? (*team)->why() : std::string(team.status().message());
        EXPECT_NE(why.find("CUDA IPC does not work between the ranks (rank 0: cuIpc"), std::string::npos) << why;
        ASSERT_EQ(team.ok(), !is_named);
        if (is_named) return;
        EXPECT_EQ((*team)->path(), Path::kStaged);
        const Buffer buffer(**team, 4000);
        const base::Status done = (*team)->run({}, [&](Route& route) {
          return route.allreduce({.input = buffer.data(), .output = buffer.data(), .count = 1000});
        });
        EXPECT_TRUE(done.ok()) << done;
      });
    }
  }
}

TEST(DeviceTeamErrors, WhereAGpuHasNoMemoryForOthersToReachRanksGoThroughTheHost) {
  if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  struct Lack {
    const char* most;
    const char* why;
  };
  // Already for the trial, or for the buffers themselves.
  for (const Lack& lack :
       {Lack{"4096:1", "not ipc: a GPU has no memory left (rank 1: 2097152 bytes on GPU 1: cuMemAlloc"},
        Lack{"4194304:1", "not ipc: the GPU of rank 1 has no memory left for 67108864 bytes"}}) {
    for (const bool is_named : {false, true}) {
      const Settings settings(std::map<std::string, std::string>{{"FAKE_CUDA_MOST", lack.most},
                                                                 {"FAKE_CUDA_DEVICES", "3"},
                                                                 {"FAKE_NCCL_VERSION", "20000"},
                                                                 {"MUSTER_DEVICE_PATH", is_named ? "ipc" : "auto"}});
      RanksInThreads ranks({3});
      ranks.run([&](const std::shared_ptr<Communicator>& comm) {
        const auto team = DeviceTeam::attach(*comm, comm->rank());
        EXPECT_TRUE(comm->barrier().ok());
        ASSERT_EQ(team.ok(), !is_named) << team.status();
        if (is_named) {
          EXPECT_EQ(team.status().code(), base::Code::kFailedPrecondition);
          EXPECT_NE(team.status().message().find("MUSTER_DEVICE_PATH=ipc: "), std::string::npos) << team.status();
          return;
        }
        EXPECT_NE((*team)->why().find(lack.why), std::string::npos) << (*team)->why();
        EXPECT_EQ((*team)->path(), Path::kStaged);
        const Buffer buffer(**team, 4000);
        const base::Status done = (*team)->run({}, [&](Route& route) {
          return route.allreduce({.input = buffer.data(), .output = buffer.data(), .count = 1000});
        });
        EXPECT_TRUE(done.ok()) << done;
      });
    }
  }
}

TEST(DeviceTeamErrors, KernelsThatTheDriverDoesNotTakeAreTold) {
  if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  const Settings settings(std::map<std::string, std::string>{{"FAKE_CUDA_FAIL", "cuModuleLoadData"}});
  testing::internal::CaptureStderr();
  RanksInThreads ranks({2});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    const auto team = DeviceTeam::attach(*comm, 0);
    ASSERT_TRUE(team.ok()) << team.status();
    EXPECT_EQ((*team)->path(), Path::kStaged);
    const std::string expected =
        fmt::format("; rank {}: libmuster's kernels (cuModuleLoadData): made to fail", comm->rank());
    EXPECT_NE((*team)->why().find(expected), std::string::npos) << (*team)->why();
  });
  const std::string told = testing::internal::GetCapturedStderr();
  const std::string line = "muster: collectives on GPU memory go through the host, which is slower: rank ";
  EXPECT_NE(told.find(line), std::string::npos) << told;
  EXPECT_EQ(told.find(line), told.rfind(line)) << "once for a process: " << told;
}

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
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    auto team = DeviceTeam::attach(*comm, 0);
    ASSERT_TRUE(team.ok()) << team.status();
    Caller caller(**team);
    const Buffer buffer(**team, 4000);
    auto gate = StreamGate::make((*team)->shared_gpu());
    ASSERT_TRUE(gate.ok());
    auto held = (*gate)->hold(caller.stream());
    ASSERT_TRUE(held.ok());
    const DeviceAddress place[] = {address_of(buffer.data())};
    const std::vector<Move> moves(kFewSegments + 1, Move{.from = 0, .to = place[0], .elements = 1});
    for (int type = 0; type < kDTypes; ++type) {
      const auto each = static_cast<DType>(type);
      void* const stream = (*team)->stream();
      ASSERT_TRUE((*team)->kernels()->reduce(stream, place, place, 100, each, RedOp::kMax, {}).ok());
      ASSERT_TRUE((*team)->kernels()->transfer(stream, moves, each, each).ok());
    }
    ASSERT_TRUE((*held)->let_go_behind((*team)->stream()).ok());
    caller.wait();
    held->reset();
  });
}

int count_of(const std::string& text, const std::string& word) {
  int count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// What others map is freed when they have closed it, and left to the driver where they have not.
TEST(DeviceTeamEnds, SharedMemoryIsNotFreedWhileOthersHaveItMapped) {
  if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  const Settings settings(std::map<std::string, std::string>{{"MUSTER_DEVICE_PATH", "ipc"}});
  enum class End { kTogether, kOneStays, kEachItself };
  for (const End how : {End::kTogether, End::kOneStays, End::kEachItself}) {
    const bool does_one_stay = how == End::kOneStays;
    RanksInThreads ranks({2});
    std::latch are_attached(2);
    std::latch is_one_gone(1);
    std::size_t before = 0;
    std::string calls;
    ranks.run([&](const std::shared_ptr<Communicator>& comm) {
      auto team = DeviceTeam::attach(*comm, 0);
      ASSERT_TRUE(team.ok()) << team.status();
      if (comm->rank() == 0) {
        fake_cuda_trace_begin();
        before = std::string(fake_cuda_trace()).size();
      }
      are_attached.arrive_and_wait();
      if (does_one_stay && comm->rank() == 0) is_one_gone.wait();
      if (does_one_stay && comm->rank() == 1) {
        team->reset();
        calls = std::string(fake_cuda_trace()).substr(before);
        is_one_gone.count_down();
      }
      // As an engine does when it ends well.
      if (how == End::kEachItself) comm->cancel({base::Code::kAborted, -1, "", "the engine has ended"});
      team->reset();
    });
    if (!does_one_stay) calls = std::string(fake_cuda_trace()).substr(before);
    EXPECT_EQ(count_of(calls, "cuIpcCloseMemHandle"), does_one_stay ? 1 : 2) << calls;
    // Nobody has the trial's block mapped any more.
    EXPECT_EQ(count_of(calls, "cuMemFree "), does_one_stay ? 1 : 4) << calls;
    if (does_one_stay) continue;
    EXPECT_LT(calls.rfind("cuIpcCloseMemHandle"), calls.find("cuMemFree ")) << calls;
  }
}

// What others have mapped cannot be freed: a program that makes buffers again and again has to get the same ones.
TEST(DeviceTeamMemory, ABufferThatAllRanksHaveFreedIsUsedAgain) {
  if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  const Settings settings(std::map<std::string, std::string>{{"MUSTER_DEVICE_PATH", "ipc"}});
  RanksInThreads ranks({2});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    auto team = DeviceTeam::attach(*comm, 0);
    ASSERT_TRUE(team.ok()) << team.status();
    const auto allocate = [&](std::size_t bytes) {
      void* data = nullptr;
      const base::Status done = (*team)->run({}, [&](Route& route) {
        MUSTER_ASSIGN_OR_RETURN(data, route.allocate(bytes));
        return base::ok_status();
      });
      EXPECT_TRUE(done.ok()) << done;
      return data;
    };
    constexpr std::size_t kBlock = IpcMemory::kBlock;
    void* const first = allocate(kBlock);
    ASSERT_TRUE((*team)->route().release(first).ok());
    void* const second = allocate(comm->rank() == 0 ? 100 : kBlock);
    EXPECT_EQ(second, first);
    void* const third = allocate(100);
    EXPECT_NE(third, second);
    if (comm->rank() == 0) {
      ASSERT_TRUE((*team)->route().release(third).ok());
    }
    EXPECT_NE(allocate(100), third) << "rank 1 has not freed its own";
    ASSERT_TRUE((*team)->route().release(second).ok());
    EXPECT_NE(allocate(comm->rank() == 0 ? 100 : kBlock + 1), second) << "too small on rank 1";
    // It is what the others read.
    ASSERT_EQ(allocate(4 * 1000), second);
    auto* const values = static_cast<float*>(second);
    for (int i = 0; i < 1000; ++i) values[i] = static_cast<float>(comm->rank() + i);
    ASSERT_TRUE(comm->barrier().ok());
    const base::Status done = (*team)->run(
        {}, [&](Route& route) { return route.allreduce({.input = second, .output = second, .count = 1000}); });
    ASSERT_TRUE(done.ok()) << done;
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(values[i], static_cast<float>(1 + 2 * i));
    ASSERT_TRUE(comm->barrier().ok());
  });
}

TEST(DeviceTeamErrors, WhoHasNoMemoryForAnOperationEndsItForAll) {
  const Settings settings(std::map<std::string, std::string>{{"MUSTER_DEVICE_PATH", "staged"}});
  RanksInThreads ranks({2});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    auto team = DeviceTeam::attach(*comm, 0);
    ASSERT_TRUE(team.ok()) << team.status();
    const Buffer buffer(**team, 4000);
    const base::Status done = (*team)->run({}, [&](Route& route) -> base::Status {
      if (comm->rank() == 1) throw std::bad_alloc();
      return route.allreduce({.input = buffer.data(), .output = buffer.data(), .count = 1000});
    });
    EXPECT_EQ(done.code(), base::Code::kResourceExhausted) << done;
    EXPECT_NE(done.message().find("rank 1: the host has no memory"), std::string::npos) << done;
    EXPECT_EQ(comm->failure().rank, 1);
    EXPECT_TRUE((*team)->is_quiet());
  });
}

TEST(DeviceTeamErrors, DifferentCallsAreNamed) {
  if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  const Settings settings(std::map<std::string, std::string>{{"MUSTER_DEVICE_PATH", "ipc"}});
  RanksInThreads ranks({2});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    auto team = DeviceTeam::attach(*comm, 0);
    ASSERT_TRUE(team.ok()) << team.status();
    const Buffer buffer(**team, 4000);
    const std::size_t count = comm->rank() == 0 ? 1000 : 999;
    const base::Status done = (*team)->run({}, [&](Route& route) {
      return route.allreduce({.input = buffer.data(), .output = buffer.data(), .count = count});
    });
    EXPECT_EQ(done.code(), base::Code::kFailedPrecondition);
    EXPECT_NE(done.message().find("999"), std::string::npos) << done;
  });
}

}  // namespace
}  // namespace muster::collectives::device
