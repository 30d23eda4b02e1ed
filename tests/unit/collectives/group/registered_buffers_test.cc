// Registered buffers beyond their ordinary use (communicator_test.cc): given back by some ranks, and after an error.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <memory>
#include <vector>

#include "tests/unit/collectives/support/ranks_in_threads.h"

namespace muster::collectives::registered_buffers_test {
namespace {

constexpr std::size_t kCount = 100'000;
// What each rank's part of the memory is a multiple of.
constexpr std::size_t kPart = std::size_t{2} << 20;

float* allocated(Communicator& comm) {
  auto memory = comm.allocate(kCount * sizeof(float));
  EXPECT_TRUE(memory.ok()) << memory.status();
  return memory.ok() ? reinterpret_cast<float*>(*memory) : nullptr;
}

TEST(RegisteredBuffersTest, ABufferThatOneRankHasGivenBackIsStillTheOthers) {
  RanksInThreads ranks({2});
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    float* const first = allocated(*comm);
    float* const second = allocated(*comm);
    ASSERT_TRUE(first != nullptr && second != nullptr);
    if (comm->rank() == 0) {
      ASSERT_TRUE(comm->release(reinterpret_cast<std::byte*>(first)).ok());
    }
    float* const data = comm->rank() == 0 ? second : first;
    for (int round = 0; round < 3; ++round) {
      std::fill(data, data + kCount, static_cast<float>(comm->rank() + round));
      ASSERT_TRUE(comm->allreduce(data, data, kCount, DType::kF32, RedOp::kSum, {}).ok());
      ASSERT_EQ(std::count(data, data + kCount, static_cast<float>(1 + 2 * round)), kCount);
      EXPECT_EQ(comm->last_algorithm(), AllreduceAlgorithm::kDirect);
    }
    ASSERT_TRUE(comm->barrier().ok());
  });
}

TEST(RegisteredBuffersTest, AfterAnErrorNobodyElseWritesToThem) {
  RanksInThreads ranks({3}, {.deadline = std::chrono::milliseconds(3000)});
  std::barrier<> together(3);
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    float* const data = allocated(*comm);
    ASSERT_NE(data, nullptr);
    if (comm->rank() == 0) {
      std::fill(data, data + kCount, 7.0F);
      EXPECT_FALSE(comm->barrier().ok());  // rank 2 does not come
    }
    together.arrive_and_wait();
    // As by a rank that is late: to rank 0's part of what this one has mapped.
    if (comm->rank() == 2) {
      float* const of_rank_0 = data - 2 * kPart / sizeof(float);
      std::fill(of_rank_0, of_rank_0 + kCount, 8.0F);
    }
    together.arrive_and_wait();
    if (comm->rank() == 0) {
      EXPECT_EQ(std::count(data, data + kCount, 7.0F), kCount);
    }
    together.arrive_and_wait();
  });
}

TEST(RegisteredBuffersTest, ALentBufferLivesLongerThanItsCommunicator) {
  std::vector<std::shared_ptr<std::byte>> kept(2);
  {
    RanksInThreads ranks({2});
    ranks.run([&](const std::shared_ptr<Communicator>& comm) {
      float* const data = allocated(*comm);
      ASSERT_NE(data, nullptr);
      auto* const bytes = reinterpret_cast<std::byte*>(data);
      std::shared_ptr<std::byte> holder = comm->lend(bytes);
      ASSERT_EQ(holder.get(), bytes);
      EXPECT_EQ(comm->lend(bytes), nullptr);
      EXPECT_FALSE(comm->release(bytes).ok());
      std::fill(data, data + kCount, static_cast<float>(comm->rank() + 1));
      ASSERT_TRUE(comm->allreduce(data, data, kCount, DType::kF32, RedOp::kSum, {}).ok());
      EXPECT_EQ(comm->last_algorithm(), AllreduceAlgorithm::kDirect);
      kept[static_cast<std::size_t>(comm->rank())] = std::move(holder);
      ASSERT_TRUE(comm->barrier().ok());
    });
  }
  for (const std::shared_ptr<std::byte>& holder : kept) {
    auto* const data = reinterpret_cast<float*>(holder.get());
    EXPECT_EQ(std::count(data, data + kCount, 3.0F), kCount);
    std::fill(data, data + kCount, 4.0F);
  }
}

TEST(RegisteredBuffersTest, ALentBufferThatWasDroppedIsNoBuffer) {
  RanksInThreads ranks({2});
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    float* const data = allocated(*comm);
    ASSERT_NE(data, nullptr);
    std::shared_ptr<std::byte> holder = comm->lend(reinterpret_cast<std::byte*>(data));
    std::fill(data, data + kCount, 5.0F);
    EXPECT_NE(comm->registered(comm->local_rank(), holder.get(), kCount), nullptr);
    holder.reset();
    EXPECT_EQ(std::count(data, data + kCount, 0.0F), kCount);  // its pages are free
    EXPECT_EQ(comm->registered(comm->local_rank(), reinterpret_cast<std::byte*>(data), kCount), nullptr);
    ASSERT_TRUE(comm->barrier().ok());
  });
}

TEST(RegisteredBuffersTest, ALentBufferKeepsItsContentsAfterAnError) {
  std::vector<std::shared_ptr<std::byte>> kept(3);
  {
    RanksInThreads ranks({3}, {.deadline = std::chrono::milliseconds(3000)});
    ranks.run([&](const std::shared_ptr<Communicator>& comm) {
      float* const data = allocated(*comm);
      ASSERT_NE(data, nullptr);
      kept[static_cast<std::size_t>(comm->rank())] = comm->lend(reinterpret_cast<std::byte*>(data));
      std::fill(data, data + kCount, 6.0F);
      if (comm->rank() != 2) {
        EXPECT_FALSE(comm->barrier().ok());  // rank 2 does not come
      }
    });
  }
  for (const std::shared_ptr<std::byte>& holder : kept) {
    auto* const data = reinterpret_cast<float*>(holder.get());
    EXPECT_EQ(std::count(data, data + kCount, 6.0F), kCount);
  }
}

}  // namespace
}  // namespace muster::collectives::registered_buffers_test
