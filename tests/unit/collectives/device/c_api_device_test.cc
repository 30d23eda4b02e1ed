// The C ABI on GPUs that are none (tests/programs/fake_cuda), of ranks that are threads: what a communicator gets from
// the one that it was split off, and how one ends. Nothing here ran on a GPU.
#include "collectives/api/c_api.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <latch>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/include/muster/device.h"
#include "tests/programs/fake_cuda/capture.h"
#include "tests/unit/collectives/device/device_support.h"
#include "tests/unit/collectives/support/ranks_in_threads.h"

extern "C" int fake_nccl_communicators();

namespace muster::collectives::device::c_api_device_test {
namespace {

constexpr int kRanks = 3;

class CApiDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  }
  // `body` of each rank with its communicator, which is attached. It is freed by the body.
  static void run(const std::function<void(muster_comm*, int rank)>& body, const char* path = "nccl") {
    const Settings settings(
        std::map<std::string, std::string>{{"MUSTER_DEVICE_PATH", path}, {"FAKE_CUDA_DEVICES", "3"}});
    RanksInThreads ranks(path == std::string("ipc") ? std::vector<int>{kRanks} : std::vector<int>{2, 1});
    std::latch are_through(kRanks);
    ranks.run([&](const std::shared_ptr<Communicator>& communicator) {
      auto* const comm = new muster_comm{communicator};
      muster_error* error = nullptr;
      EXPECT_EQ(muster_device_attach(comm, communicator->rank(), &error), MUSTER_OK) << muster_error_message(error);
      muster_error_free(error);
      body(comm, communicator->rank());
      are_through.arrive_and_wait();
    });
    EXPECT_EQ(fake_nccl_communicators(), 0);
  }
};

// The sum of one float of each rank.
float sum_of(muster_comm* comm, int device, float own) {
  auto api = CudaApi::load();
  const std::shared_ptr<const Gpu> gpu = *Gpu::open(*api, device);
  const Stream stream = *make_stream(gpu);
  const Buffer buffer(gpu, sizeof own);
  buffer.write(&own, stream.get());
  muster_request* request = nullptr;
  muster_error* error = nullptr;
  EXPECT_EQ(muster_allreduce_on_stream(comm, buffer.data(), buffer.data(), 1, MUSTER_FLOAT32, MUSTER_SUM, 1, 1,
                                       stream.get(), &request, &error),
            MUSTER_OK)
      << muster_error_message(error);
  EXPECT_EQ(muster_wait(request, -1, &error), MUSTER_OK) << muster_error_message(error);
  muster_request_free(request);
  buffer.read(&own, stream.get());
  const Event done = *make_event(gpu);
  EXPECT_TRUE(gpu->call("mark", gpu->api().event_record, done.get(), stream.get()).ok());
  while (gpu->api().event_query(done.get()) == kCudaNotReady) std::this_thread::yield();
  return own;
}

TEST_F(CApiDeviceTest, WhatIsSplitOffHasItsPartOfNccl) {
  std::latch are_split(kRanks);
  std::latch are_counted(kRanks);
  run([&](muster_comm* comm, int rank) {
    muster_comm* pair = nullptr;
    ASSERT_EQ(muster_comm_split(comm, rank == 1 ? -1 : 0, 0, &pair, nullptr), MUSTER_OK);
    EXPECT_EQ(pair == nullptr, rank == 1);
    if (rank != 1) {
      EXPECT_EQ(muster_device_path(pair), nullptr) << "not attached yet";
      ASSERT_EQ(muster_device_attach(pair, rank, nullptr), MUSTER_OK);
      EXPECT_STREQ(muster_device_path(pair), "nccl");
    }
    are_split.arrive_and_wait();
    EXPECT_EQ(fake_nccl_communicators(), kRanks + 2);
    are_counted.arrive_and_wait();
    if (rank != 1) {
      EXPECT_EQ(sum_of(pair, rank, 2), 4);
    }
    EXPECT_EQ(sum_of(comm, rank, 1), 3);
    muster_comm_free(pair);
    EXPECT_EQ(sum_of(comm, rank, 2), 6);
    muster_comm_free(comm);
  });
}

TEST_F(CApiDeviceTest, WhatIsNeverAttachedIsFreed) {
  run([](muster_comm* comm, int) {
    muster_comm* same = nullptr;
    ASSERT_EQ(muster_comm_split(comm, 0, 0, &same, nullptr), MUSTER_OK);
    muster_comm_free(comm);
    muster_comm_free(same);
  });
}

TEST_F(CApiDeviceTest, WhoFreesItWaitsForTheOthersButNotForEver) {
  std::latch is_freed(1);
  run([&](muster_comm* comm, int rank) {
    EXPECT_EQ(sum_of(comm, rank, 1), 3);
    if (rank == 0) {
      muster_comm_free(comm);
      is_freed.count_down();
      return;
    }
    is_freed.wait();
    muster_error* error = nullptr;
    EXPECT_EQ(muster_barrier(comm, &error), MUSTER_FAILED);
    EXPECT_NE(std::string(muster_error_message(error)).find("has freed communicator"), std::string::npos);
    EXPECT_EQ(muster_error_rank(error), 0);
    muster_error_free(error);
    muster_comm_free(comm);
  });
}

// For as long as they take, which counts for nothing, and whether or not requests are left.
TEST_F(CApiDeviceTest, WhoFreesItWaitsForWhatWasStarted) {
  for (const char* const path : {"nccl", "ipc", "staged"}) {
    const auto body = [path](muster_comm* comm, int rank) {
      const std::shared_ptr<const Gpu> gpu = *Gpu::open(*CudaApi::load(), rank);
      const Stream stream = *make_stream(gpu);
      const Buffer buffer(gpu, 4);
      Never never(gpu);
      never.hold(stream.get());
      muster_request* request = nullptr;
      ASSERT_EQ(muster_allreduce_on_stream(comm, buffer.data(), buffer.data(), 1, MUSTER_FLOAT32, MUSTER_SUM, 1, 1,
                                           stream.get(), &request, nullptr),
                MUSTER_OK);
      std::thread program([&] {
        EXPECT_EQ(muster_wait(request, 2.5, nullptr), MUSTER_TIMEOUT);
        never.come();
      });
      muster_comm_free(comm);
      muster_error* error = nullptr;
      EXPECT_EQ(muster_wait(request, 0, &error), MUSTER_OK) << path << ": " << muster_error_message(error);
      muster_error_free(error);
      program.join();
      muster_request_free(request);
    };
    run(body, path);
  }
}

// And what others keep costs it that time once.
TEST_F(CApiDeviceTest, WhoFreesManyWaitsForTheOthersOnce) {
  constexpr int kMany = 4;
  std::latch are_freed(1);
  run([&](muster_comm* comm, int rank) {
    std::vector<muster_comm*> many(kMany);
    for (muster_comm*& one : many) {
      ASSERT_EQ(muster_comm_split(comm, 0, 0, &one, nullptr), MUSTER_OK);
      ASSERT_EQ(muster_device_attach(one, rank, nullptr), MUSTER_OK);
    }
    if (rank != 0) are_freed.wait();
    const auto begin = std::chrono::steady_clock::now();
    for (muster_comm* const one : many) muster_comm_free(one);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(3500));
    if (rank == 0) are_freed.count_down();
    muster_comm_free(comm);
  });
}

// Whoever marks the stream, holds it and starts the operation in steps that another thread comes between, has the
// worker wait for a mark that lies behind the hold of an operation that comes later in its queue.
TEST(CApiCalls, ThreadsThatCallOnOneStreamDoNotHoldEachOtherUp) {
  if (Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  const Settings settings(
      std::map<std::string, std::string>{{"MUSTER_DEVICE_PATH", "ipc"}, {"FAKE_CUDA_CALL_US", "200"}});
  RanksInThreads ranks({1});
  ranks.run([](const std::shared_ptr<Communicator>& communicator) {
    muster_comm comm{communicator};
    ASSERT_EQ(muster_device_attach(&comm, 0, nullptr), MUSTER_OK);
    EXPECT_STREQ(muster_device_path(&comm), "ipc");
    EXPECT_STREQ(muster_device_path_reason(&comm), "");
    auto api = CudaApi::load();
    const std::shared_ptr<const Gpu> gpu = *Gpu::open(*api, 0);
    const Stream stream = *make_stream(gpu);
    const Buffer buffer(gpu, 4);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) {
          muster_request* request = nullptr;
          ASSERT_EQ(muster_allreduce_on_stream(&comm, buffer.data(), buffer.data(), 1, MUSTER_FLOAT32, MUSTER_SUM, 1, 1,
                                               stream.get(), &request, nullptr),
                    MUSTER_OK);
          ASSERT_EQ(muster_wait(request, 20, nullptr), MUSTER_OK);
          muster_request_free(request);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(CApiCalls, ABufferThatFailsToBeMadeIsNotGivenOut) {
  const Settings settings(std::map<std::string, std::string>{{"MUSTER_DEVICE_PATH", "staged"}});
  RanksInThreads ranks({1});
  ranks.run([](const std::shared_ptr<Communicator>& communicator) {
    muster_comm comm{communicator};
    ASSERT_EQ(muster_device_attach(&comm, 0, nullptr), MUSTER_OK);
    const Settings failing(std::map<std::string, std::string>{{"FAKE_CUDA_FAIL", "cuEventQuery"}});
    void* data = &comm;
    EXPECT_EQ(muster_device_buffer_alloc(&comm, 100, &data, nullptr), MUSTER_INTERNAL);
    EXPECT_EQ(data, nullptr);
  });
}

// An operation has failed, and the device still waits for the program: to free what it may use would wait for both.
// Ends the process, whose device is still held.
void free_a_buffer_of_a_device_that_is_held() {
  const Settings settings(
      std::map<std::string, std::string>{{"MUSTER_DEVICE_PATH", "staged"}, {"FAKE_CUDA_WAITS", "1"}});
  RanksInThreads ranks({1});
  ranks.run([](const std::shared_ptr<Communicator>& communicator) {
    muster_comm comm{communicator};
    ASSERT_EQ(muster_device_attach(&comm, 0, nullptr), MUSTER_OK);
    void* data = nullptr;
    ASSERT_EQ(muster_device_buffer_alloc(&comm, 100, &data, nullptr), MUSTER_OK);
    const std::shared_ptr<const Gpu> gpu = *Gpu::open(*CudaApi::load(), 0);
    const Stream stream = *make_stream(gpu);
    Never never(gpu);
    never.hold(stream.get());
    const Calls calls;
    muster_request* request = nullptr;
    ASSERT_EQ(muster_allreduce_on_stream(&comm, data, data, 1, MUSTER_FLOAT32, MUSTER_SUM, 1, 1, stream.get(), &request,
                                         nullptr),
              MUSTER_OK);
    while (count_of(calls.all(), "cuMemcpyAsync") == 0) std::this_thread::yield();
    communicator->cancel({base::Code::kUnavailable, 0, "here", "rank 0 was killed"});
    EXPECT_EQ(muster_wait(request, -1, nullptr), MUSTER_RANK_DIED);
    muster_request_free(request);
    auto freed = std::async(std::launch::async, [&] { return muster_device_buffer_free(&comm, data, nullptr); });
    const bool is_free = freed.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
    EXPECT_TRUE(is_free && freed.get() == MUSTER_OK);
    std::fflush(stdout);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  });
}

TEST(CApiCalls, ABufferIsFreedWhileTheDeviceStillWaits) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(free_a_buffer_of_a_device_that_is_held(), testing::ExitedWithCode(0), "");
}

TEST(CApiCalls, AStreamThatIsCapturedIsRefusedAndItsCaptureGoesOn) {
  const Settings settings(std::map<std::string, std::string>{{"MUSTER_DEVICE_PATH", "staged"}});
  RanksInThreads ranks({1});
  ranks.run([](const std::shared_ptr<Communicator>& communicator) {
    muster_comm comm{communicator};
    ASSERT_EQ(muster_device_attach(&comm, 0, nullptr), MUSTER_OK);
    const std::shared_ptr<const Gpu> gpu = *Gpu::open(*CudaApi::load(), 0);
    const Stream stream = *make_stream(gpu);
    const Buffer buffer(gpu, 4);
    muster_request* request = nullptr;
    const auto start = [&](muster_error** error) {
      return muster_allreduce_on_stream(&comm, buffer.data(), buffer.data(), 1, MUSTER_FLOAT32, MUSTER_SUM, 1, 1,
                                        stream.get(), &request, error);
    };
    for (const int mode : {0, 1, 2}) {
      ASSERT_EQ(cuStreamBeginCapture_v2(stream.get(), mode), kCudaSuccess);
      muster_error* error = nullptr;
      EXPECT_EQ(start(&error), MUSTER_INVALID);
      EXPECT_EQ(request, nullptr);
      EXPECT_NE(std::string(muster_error_message(error)).find("captured into a CUDA graph"), std::string::npos)
          << muster_error_message(error);
      muster_error_free(error);
      void* nodes = nullptr;
      EXPECT_EQ(cuStreamEndCapture(stream.get(), &nodes), kCudaSuccess);
      EXPECT_EQ(nodes, nullptr) << "nothing of libmuster's is in the graph";
    }
    ASSERT_EQ(start(nullptr), MUSTER_OK);
    EXPECT_EQ(muster_wait(request, 20, nullptr), MUSTER_OK);
    muster_request_free(request);
  });
}

}  // namespace
}  // namespace muster::collectives::device::c_api_device_test
