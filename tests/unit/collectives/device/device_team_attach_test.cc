// A rank that cannot take part fails with an error that names it. A rank that cannot use the best path gets a warning
// about the slower one. The GPUs are fakes (tests/programs/fake_cuda). Nothing here ran on a GPU.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "collectives/device/device_team.h"
#include "tests/unit/collectives/device/device_support.h"

namespace muster::collectives::device::device_team_attach_test {
namespace {

TEST(DeviceTeamAttach, ARankWithoutAGpuIsNamedAndTheCommunicatorGoesOn) {
  RanksInThreads ranks({2});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    const auto team = DeviceTeam::attach(*comm, comm->rank() == 1 ? 7 : 0);
    ASSERT_FALSE(team.ok());
    const bool is_named =
        team.status().message().find(comm->rank() == 1 ? "GPU 7 does not exist" : "rank 1") != std::string::npos;
    EXPECT_TRUE(is_named) << team.status();
    EXPECT_TRUE(comm->barrier().ok());
    const auto second = DeviceTeam::attach(*comm, 0);
    EXPECT_TRUE(second.ok()) << second.status();
    EXPECT_TRUE(comm->barrier().ok());
  });
}

TEST(DeviceTeamAttach, ADriverWithoutModesOfCapturesWillDo) {
  auto api = std::make_shared<CudaApi>(**CudaApi::load());
  ASSERT_NE(api->exchange_capture_mode, nullptr);
  api->exchange_capture_mode = nullptr;
  auto gpu = Gpu::open(api, 0);
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  EXPECT_TRUE(allocate(*gpu, 100).ok());
}

TEST(DeviceTeamAttach, WhatTheDriverRefusesEndsTheCommunicatorForAll) {
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
TEST(DeviceTeamAttach, WhereCudaIpcDoesNotWorkRanksGoThroughTheHost) {
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

TEST(DeviceTeamAttach, WhereAGpuHasNoMemoryForOthersToReachRanksGoThroughTheHost) {
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

TEST(DeviceTeamAttach, KernelsThatTheDriverDoesNotTakeAreTold) {
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
  const std::string warned = testing::internal::GetCapturedStderr();
  const std::string line = "muster: collectives on GPU memory go through the host, which is slower: rank ";
  EXPECT_NE(warned.find(line), std::string::npos) << warned;
  EXPECT_EQ(warned.find(line), warned.rfind(line)) << "once for a process: " << warned;
}

// The driver does not say what becomes of kernels whose module is unloaded.
TEST(DeviceTeamAttach, KernelsThatMayStillRunAreNotUnloaded) {
  if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  const std::shared_ptr<const Gpu> gpu = *Gpu::open(*CudaApi::load(), 0);
  const Calls calls;
  {
    const Settings settings(std::map<std::string, std::string>{{"FAKE_CUDA_FAIL", "cuEventQuery"}});
    EXPECT_FALSE(Kernels::load(gpu).ok());
  }
  EXPECT_EQ(count_of(calls.all(), "cuModuleUnload"), 0);
  EXPECT_TRUE(Kernels::load(gpu).ok());
  EXPECT_EQ(count_of(calls.all(), "cuModuleUnload"), 1);
}

}  // namespace
}  // namespace muster::collectives::device::device_team_attach_test
