// Ranks that are threads, on GPUs that are none (tests/programs/fake_cuda): that each path gives what the collectives
// for the processor give, whatever the devices' delays. Nothing here ran on a GPU.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "collectives/device/device_team.h"
#include "tests/programs/fake_cuda/capture.h"
#include "tests/unit/collectives/device/device_support.h"
#include "tests/unit/collectives/support/large.h"

namespace muster::collectives::device::device_team_test {
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
  void run(const std::function<void(Communicator&, DeviceTeam&)>& body) {
    with_teams(ranks_, GetParam().devices, [&](Communicator& comm, std::unique_ptr<DeviceTeam>& team) {
      EXPECT_EQ(name_of(team->path()), GetParam().path);
      body(comm, *team);
    });
  }
  const Settings settings_;
  RanksInThreads ranks_;
};

TEST_P(DeviceTeamTest, AllreducesAsTheProcessorDoes) {
  run([](Communicator& comm, DeviceTeam& team) {
    Caller caller(team);
    unsigned seed = 0;
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{70'001}, large(2'500'000)}) {
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
    for (const std::size_t count : {std::size_t{3}, std::size_t{10'007}, large(1'500'000)}) {
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

}  // namespace
}  // namespace muster::collectives::device::device_team_test
