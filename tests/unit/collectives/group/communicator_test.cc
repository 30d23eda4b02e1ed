// Every collective over every shape of a job, against a float64 reference: ranks are threads.
#include "collectives/group/communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>

#include "base/sanitizers.h"
#include "tests/unit/collectives/support/large.h"
#include "tests/unit/collectives/support/numbers.h"
#include "tests/unit/collectives/support/ranks_in_threads.h"

namespace muster::collectives::communicator_test {
namespace {

using Bytes = std::vector<std::byte>;
constexpr auto kPoison = static_cast<std::byte>(0xa5);

std::size_t at(int rank) {
  return static_cast<std::size_t>(rank);
}

// The inputs of all ranks, the same on each: drawn from one seed.
std::vector<Bytes> inputs_for(int seed, int ranks, DType type, RedOp op, std::size_t count) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    std::mt19937 random(static_cast<unsigned>(seed * 1000 + rank));
    inputs.push_back(random_vector(random, type, op, count));
  }
  return inputs;
}

void expect_reduced(const std::vector<Bytes>& inputs, const Bytes& output, DType type, RedOp op, std::size_t first,
                    std::size_t count) {
  const std::size_t size = size_of(type);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<double> numbers;
    double magnitude = 1;
    for (const Bytes& input : inputs) {
      numbers.push_back(read_element(type, input.data() + (first + i) * size));
      magnitude = op == RedOp::kProd ? magnitude * std::fmax(1, std::fabs(numbers.back()))
                                     : magnitude + std::fabs(numbers.back());
    }
    const double found = read_element(type, output.data() + i * size);
    ASSERT_NEAR(found, reference(op, type, numbers), bound(type, magnitude, inputs.size()))
        << name_of(type) << " " << name_of(op) << " element " << i << " of " << count;
  }
}

struct Shape {
  std::vector<int> hosts;
  std::string algorithm;
};

void PrintTo(const Shape& shape, std::ostream* out) {
  for (const int ranks : shape.hosts) *out << ranks << "+";
  *out << shape.algorithm;
}

class CommunicatorTest : public testing::TestWithParam<Shape> {
 protected:
  CommunicatorTest() { setenv("MUSTER_ALGORITHM", GetParam().algorithm.c_str(), 1); }
  ~CommunicatorTest() override { unsetenv("MUSTER_ALGORITHM"); }

  // Bytes that every rank had as result of the same call: all must be equal.
  void agree(int step, const Bytes& bytes) {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(results_.emplace(step, bytes).first->second, bytes) << "ranks differ in step " << step;
  }
  std::size_t agreed() const { return results_.size(); }

 private:
  std::mutex mutex_;
  std::map<int, Bytes> results_;
};

constexpr std::size_t kCounts[] = {0, 1, 7, 33, 1000, 5003, large(70'001), large(300'007)};

TEST_P(CommunicatorTest, AllreduceOfEverythingAgrees) {
  RanksInThreads ranks(GetParam().hosts);
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    int step = 0;
    for (int type = 0; type < kDTypes; ++type) {
      for (int op = 0; op < kRedOps; ++op) {
        const auto dtype = static_cast<DType>(type);
        const auto redop = static_cast<RedOp>(op);
        if (dtype == DType::kBool && redop == RedOp::kAvg) continue;
        // The large ones for sums, the largest for one type: what differs there is how vectors are cut.
        for (const std::size_t count : kCounts) {
          if (count > 6000 && redop != RedOp::kSum) continue;
          if (count > large(100'000) && dtype != DType::kF32) continue;
          ++step;
          const std::vector<Bytes> inputs = inputs_for(step, comm->size(), dtype, redop, count);
          const bool in_place = step % 2 == 0;
          Bytes out = in_place ? inputs[at(comm->rank())] : Bytes(count * size_of(dtype), kPoison);
          const void* const in = in_place ? out.data() : inputs[at(comm->rank())].data();
          const base::Status done = comm->allreduce(in, out.data(), count, dtype, redop, {});
          ASSERT_TRUE(done.ok()) << done;
          expect_reduced(inputs, out, dtype, redop, 0, count);
          agree(step, out);
        }
      }
    }
  });
  EXPECT_GT(agreed(), 250U);
}

TEST_P(CommunicatorTest, AllreduceScales) {
  RanksInThreads ranks(GetParam().hosts);
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    std::vector<float> numbers(5000, static_cast<float>(comm->rank() + 1));
    const int ranks_sum = comm->size() * (comm->size() + 1) / 2;
    ASSERT_TRUE(
        comm->allreduce(numbers.data(), numbers.data(), numbers.size(), DType::kF32, RedOp::kSum, {0.5, 4}).ok());
    EXPECT_EQ(numbers, std::vector<float>(5000, static_cast<float>(2 * ranks_sum)));
  });
}

TEST_P(CommunicatorTest, EverythingElse) {
  RanksInThreads ranks(GetParam().hosts);
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    const int size = comm->size();
    const int rank = comm->rank();
    int seed = 1;
    for (const std::size_t count : std::initializer_list<std::size_t>{0, 1, 13, 4099, large(200'003)}) {
      const int root = static_cast<int>(count) % size;
      ++seed;
      const std::vector<Bytes> inputs = inputs_for(seed, size, DType::kI32, RedOp::kSum, count * at(size));
      const std::size_t bytes = count * 4;
      const auto own = [&](int of) {
        return Bytes(inputs[at(of)].begin(), inputs[at(of)].begin() + static_cast<std::ptrdiff_t>(bytes));
      };
      const auto block = [&](int of, int which) {
        const auto begin = inputs[at(of)].begin() + static_cast<std::ptrdiff_t>(bytes) * which;
        return Bytes(begin, begin + static_cast<std::ptrdiff_t>(bytes));
      };
      Bytes all;
      for (int i = 0; i < size; ++i) {
        const Bytes one = own(i);
        all.insert(all.end(), one.begin(), one.end());
      }

      Bytes data = rank == root ? own(root) : Bytes(bytes, kPoison);
      ASSERT_TRUE(comm->broadcast(data.data(), count, DType::kI32, root).ok());
      EXPECT_EQ(data, own(root)) << "broadcast";

      Bytes gathered(all.size(), kPoison);
      const std::vector<std::size_t> counts(at(size), count);
      ASSERT_TRUE(comm->allgather(own(rank).data(), gathered.data(), counts, DType::kI32, true).ok());
      EXPECT_EQ(gathered, all) << "allgather";

      Bytes at_root(all.size(), kPoison);
      ASSERT_TRUE(comm->gather(own(rank).data(), at_root.data(), count, DType::kI32, root).ok());
      EXPECT_EQ(at_root, rank == root ? all : Bytes(all.size(), kPoison)) << "gather";

      Bytes scattered(bytes, kPoison);
      ASSERT_TRUE(comm->scatter(inputs[at(rank)].data(), scattered.data(), count, DType::kI32, root).ok());
      EXPECT_EQ(scattered, block(root, rank)) << "scatter";

      Bytes swapped(all.size(), kPoison);
      std::vector<Slice> blocks;
      for (int i = 0; i < size; ++i) blocks.push_back({at(i) * bytes, bytes});
      ASSERT_TRUE(comm->alltoall(inputs[at(rank)].data(), blocks, swapped.data(), blocks, DType::kI32, count).ok());
      Bytes expected;
      for (int i = 0; i < size; ++i) {
        const Bytes one = block(i, rank);
        expected.insert(expected.end(), one.begin(), one.end());
      }
      EXPECT_EQ(swapped, expected) << "alltoall";

      Bytes reduced(bytes, kPoison);
      ASSERT_TRUE(comm->reduce_scatter(inputs[at(rank)].data(), reduced.data(), counts, DType::kI32, RedOp::kSum).ok());
      expect_reduced(inputs, reduced, DType::kI32, RedOp::kSum, at(rank) * count, count);

      Bytes at_one(bytes, kPoison);
      ASSERT_TRUE(comm->reduce(inputs[at(rank)].data(), at_one.data(), count, DType::kI32, RedOp::kAvg, root).ok());
      if (rank == root) expect_reduced(inputs, at_one, DType::kI32, RedOp::kAvg, 0, count);
      ASSERT_TRUE(comm->barrier().ok());
    }
  });
}

TEST_P(CommunicatorTest, BlocksOfDifferentSizes) {
  RanksInThreads ranks(GetParam().hosts);
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    const int size = comm->size();
    const int rank = comm->rank();
    // Rank i has i * 1001 elements, the first none.
    std::vector<std::size_t> counts;
    std::vector<std::int32_t> expected;
    for (int i = 0; i < size; ++i) {
      counts.push_back(at(i) * 1001);
      expected.insert(expected.end(), counts.back(), i + 1);
    }
    const std::vector<std::int32_t> own(counts[at(rank)], rank + 1);
    std::vector<std::int32_t> out(expected.size(), -1);
    ASSERT_TRUE(comm->allgather(own.data(), out.data(), counts, DType::kI32, false).ok());
    EXPECT_EQ(out, expected);

    // From i to j go i * 10 + j elements.
    std::vector<Slice> to;
    std::vector<Slice> from;
    std::vector<std::int32_t> in;
    std::size_t taken = 0;
    for (int i = 0; i < size; ++i) {
      to.push_back({in.size() * 4, at(rank * 10 + i) * 4});
      in.insert(in.end(), at(rank * 10 + i), rank * 100 + i);
      from.push_back({taken * 4, at(i * 10 + rank) * 4});
      taken += at(i * 10 + rank);
    }
    std::vector<std::int32_t> swapped(taken, -1);
    ASSERT_TRUE(comm->alltoall(in.data(), to, swapped.data(), from, DType::kI32, 0).ok());
    std::size_t place = 0;
    for (int i = 0; i < size; ++i) {
      for (int k = 0; k < i * 10 + rank; ++k) ASSERT_EQ(swapped[place++], i * 100 + rank);
    }
  });
}

TEST_P(CommunicatorTest, SplitsAndGroupsWorkSideBySide) {
  RanksInThreads ranks(GetParam().hosts);
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    auto half = comm->split(comm->rank() % 2, -comm->rank());
    ASSERT_TRUE(half.ok()) << half.status();
    const int expected = (comm->size() + 1 - comm->rank() % 2) / 2;
    ASSERT_EQ((*half)->size(), expected);
    // Ordered by the key: backwards.
    EXPECT_EQ((*half)->rank(), expected - 1 - comm->rank() / 2);
    auto nothing = comm->split(comm->rank() == 0 ? -1 : 0, 0);
    ASSERT_TRUE(nothing.ok()) << nothing.status();
    EXPECT_EQ(*nothing == nullptr, comm->rank() == 0);

    // Both communicators at once, from two threads.
    std::thread other([half = *half] {
      base::Status done;
      for (int i = 0; i < 50 && done.ok(); ++i) {
        std::int64_t one = 1;
        done = half->allreduce(&one, &one, 1, DType::kI64, RedOp::kSum, {});
        EXPECT_EQ(one, half->size());
      }
      EXPECT_TRUE(done.ok()) << done;
    });
    base::Status done;
    for (int i = 0; i < 50 && done.ok(); ++i) {
      std::vector<float> ones(3000, 1);
      done = comm->allreduce(ones.data(), ones.data(), ones.size(), DType::kF32, RedOp::kSum, {});
      EXPECT_EQ(ones, std::vector<float>(3000, static_cast<float>(comm->size())));
    }
    EXPECT_TRUE(done.ok()) << done;
    other.join();
  });
}

TEST_P(CommunicatorTest, StartedOperationsRunInOrderBesideBlockingOnes) {
  RanksInThreads ranks(GetParam().hosts);
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    std::vector<std::vector<std::int32_t>> data(20, std::vector<std::int32_t>(2000, comm->rank()));
    std::vector<std::shared_ptr<Request>> requests;
    for (std::vector<std::int32_t>& one : data) {
      requests.push_back(comm->start(
          [&comm, &one] { return comm->allreduce(one.data(), one.data(), one.size(), DType::kI32, RedOp::kSum, {}); }));
    }
    ASSERT_TRUE(comm->barrier().ok());  // comes after them
    const int sum = comm->size() * (comm->size() - 1) / 2;
    for (std::size_t i = 0; i < data.size(); ++i) {
      ASSERT_TRUE(requests[i]->test().has_value());
      ASSERT_TRUE(requests[i]->wait().ok());
      ASSERT_EQ(data[i], std::vector<std::int32_t>(2000, sum));
    }
  });
}

TEST_P(CommunicatorTest, RegisteredBuffersOfDifferentSizes) {
  RanksInThreads ranks(GetParam().hosts);
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    constexpr std::size_t kCount = 100'003;
    auto memory = comm->allocate((kCount + at(comm->rank())) * sizeof(float));
    ASSERT_TRUE(memory.ok()) << memory.status();
    float* const data = reinterpret_cast<float*>(*memory);
    for (int round = 0; round < 3; ++round) {
      std::fill(data, data + kCount, static_cast<float>(comm->rank() + round));
      ASSERT_TRUE(comm->allreduce(data, data, kCount, DType::kF32, RedOp::kSum, {}).ok());
      const int expected = comm->size() * (comm->size() - 1) / 2 + round * comm->size();
      for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(data[i], static_cast<float>(expected));
    }
    if (comm->hosts() == 1 && GetParam().algorithm.empty() && comm->size() > 1) {
      EXPECT_EQ(comm->last_algorithm(), AllreduceAlgorithm::kDirect);
    }
    ASSERT_TRUE(comm->barrier().ok());
    EXPECT_TRUE(comm->release(*memory).ok());
    EXPECT_FALSE(comm->release(*memory).ok());
  });
}

TEST_P(CommunicatorTest, VectorsBeyondTheCaches) {
  RanksInThreads ranks(GetParam().hosts);
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    constexpr std::size_t kCount = 3'400'003;  // more than kStreamFrom bytes, and no whole number of pieces
    std::vector<float> in(kCount);
    for (std::size_t i = 0; i < kCount; ++i) in[i] = static_cast<float>((i + at(comm->rank())) % 1000);
    std::vector<float> out(kCount);
    ASSERT_TRUE(comm->allreduce(in.data(), out.data(), kCount, DType::kF32, RedOp::kSum, {}).ok());
    for (std::size_t i = 0; i < kCount; ++i) {
      float sum = 0;
      for (int rank = 0; rank < comm->size(); ++rank) sum += static_cast<float>((i + at(rank)) % 1000);
      ASSERT_EQ(out[i], sum) << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(OneHost, CommunicatorTest,
                         testing::Values(Shape{{1}, ""}, Shape{{2}, ""}, Shape{{3}, ""}, Shape{{4}, ""}, Shape{{9}, ""},
                                         Shape{{2}, "staged"}, Shape{{3}, "staged"}, Shape{{5}, "peer_read"},
                                         Shape{{2}, "flat"}));

INSTANTIATE_TEST_SUITE_P(Hosts, CommunicatorTest,
                         testing::Values(Shape{{1, 1}, ""}, Shape{{2, 2}, ""}, Shape{{3, 1}, ""},
                                         Shape{{1, 1, 1, 1}, ""}, Shape{{2, 2}, "ring"},
                                         Shape{{1, 1, 1}, "recursive_doubling"}, Shape{{1, 1, 1}, "pairwise"}));

TEST(CommunicatorEncryptionTest, EverythingWorksEncrypted) {
  RanksInThreads ranks({2, 1, 1});
  ranks.set_encrypts({true, true, true, true});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    for (const std::size_t count : std::initializer_list<std::size_t>{0, 1, 1000, 300'007}) {
      std::vector<float> numbers(count, static_cast<float>(comm->rank() + 1));
      ASSERT_TRUE(comm->allreduce(numbers.data(), numbers.data(), count, DType::kF32, RedOp::kSum, {}).ok());
      EXPECT_EQ(numbers, std::vector<float>(count, 10));
      ASSERT_TRUE(comm->broadcast(numbers.data(), count, DType::kF32, 3).ok());
      std::vector<float> got(count);
      const auto sent = comm->start_send(numbers.data(), count, DType::kF32, (comm->rank() + 1) % 4, 0);
      ASSERT_TRUE(comm->receive(got.data(), count, DType::kF32, (comm->rank() + 3) % 4, 0).ok());
      ASSERT_TRUE(sent->wait().ok());
      EXPECT_EQ(got, numbers);
    }
  });
}

TEST(CommunicatorEncryptionTest, WhereOneRankDoesNotEncryptNobodyStarts) {
  RanksInThreads ranks({1, 1, 1});
  ranks.set_encrypts({true, true, false});
  ranks.join([](const base::Result<std::shared_ptr<World>>& world) {
    EXPECT_EQ(world.status().code(), base::Code::kFailedPrecondition);
    EXPECT_NE(world.status().message().find("rank 0 ("), std::string::npos) << world.status();
    EXPECT_NE(world.status().message().find(") encrypts its connections and rank 2 ("), std::string::npos)
        << world.status();
    EXPECT_NE(world.status().message().find("set MUSTER_ENCRYPT=1"), std::string::npos) << world.status();
  });
}

// The ranks of a host then wait in different places: some for each other, one for what comes over links.
TEST(CommunicatorFaultTest, RanksThatCallDifferentThingsBetweenHostsAllFailAtOnce) {
  const auto began = std::chrono::steady_clock::now();
  for (int odd = 0; odd < 4; ++odd) {
    RanksInThreads ranks({2, 2});
    ranks.run([&](const std::shared_ptr<Communicator>& comm) {
      std::vector<float> data(1 << 18, 1);
      const base::Status done =
          comm->rank() == odd ? comm->broadcast(data.data(), 1, DType::kF32, (odd + 2) % 4)
                              : comm->allreduce(data.data(), data.data(), data.size(), DType::kF32, RedOp::kSum, {});
      EXPECT_EQ(done.code(), base::Code::kFailedPrecondition) << done;
      EXPECT_NE(done.message().find("broadcast of 1 float32"), std::string::npos) << done;
      EXPECT_NE(done.message().find("rank " + std::to_string(odd) + " ("), std::string::npos) << done;
    });
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(25)) << "that was the deadline";
}

TEST(CommunicatorFaultTest, RanksThatCallDifferentThingsAllFail) {
  RanksInThreads ranks({3});
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    std::vector<double> data(8, 1);
    const DType type = comm->rank() == 1 ? DType::kF32 : DType::kF64;
    const base::Status done = comm->allreduce(data.data(), data.data(), 8, type, RedOp::kSum, {});
    EXPECT_EQ(done.code(), base::Code::kFailedPrecondition) << done;
    EXPECT_NE(done.message().find("rank 1 ("), std::string::npos) << done;
    EXPECT_NE(done.message().find("float32"), std::string::npos) << done;
    EXPECT_NE(done.message().find("float64"), std::string::npos) << done;
    // It has ended.
    EXPECT_EQ(comm->barrier().code(), base::Code::kFailedPrecondition);
    // And the ranks that are left make a new one.
    const std::vector<int> all{0, 1, 2};
    auto again = comm->group(all);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE((*again)->barrier().ok());
  });
}

class MismatchTest : public testing::TestWithParam<std::vector<int>> {
 protected:
  // Both ranks get the error of a mismatch from this call.
  void expect_mismatch(const std::function<base::Status(Communicator&)>& call, const WorldOptions& options = {}) {
    RanksInThreads ranks(GetParam(), options);
    ranks.run([&](const std::shared_ptr<Communicator>& comm) {
      const base::Status done = call(*comm);
      EXPECT_EQ(done.code(), base::Code::kFailedPrecondition) << done;
      EXPECT_NE(done.message().find("rank 0 ("), std::string::npos) << done;
      EXPECT_NE(done.message().find("rank 1 ("), std::string::npos) << done;
    });
  }
};

TEST_P(MismatchTest, CountsWithTheSameSum) {
  const auto counts = [](const Communicator& comm) {
    return comm.rank() == 0 ? std::vector<std::size_t>{1, 3} : std::vector<std::size_t>{3, 1};
  };
  expect_mismatch([&](Communicator& comm) {
    const std::vector<float> in(4);
    std::vector<float> out(4);
    return comm.allgather(in.data(), out.data(), counts(comm), DType::kF32, false);
  });
  expect_mismatch([&](Communicator& comm) {
    const std::vector<float> in(4);
    std::vector<float> out(4);
    return comm.reduce_scatter(in.data(), out.data(), counts(comm), DType::kF32, RedOp::kSum);
  });
}

TEST_P(MismatchTest, Scales) {
  // 0.25 and 0.1 had the same byte once.
  for (const double other : {0.1, 0.5, 1.0}) {
    expect_mismatch([&](Communicator& comm) {
      float number = 1;
      return comm.allreduce(&number, &number, 1, DType::kF32, RedOp::kSum, {comm.rank() == 0 ? 0.25 : other, 1});
    });
  }
}

TEST_P(MismatchTest, Roots) {
  WorldOptions options;
  options.checks_calls = true;  // between hosts
  expect_mismatch(
      [](Communicator& comm) {
        float number = 1;
        return comm.broadcast(&number, 1, DType::kF32, comm.rank());
      },
      options);
  expect_mismatch(
      [](Communicator& comm) {
        float numbers[2] = {1, 2};
        return comm.scatter(numbers, numbers, 1, DType::kF32, comm.rank());
      },
      options);
}

INSTANTIATE_TEST_SUITE_P(Places, MismatchTest, testing::Values(std::vector<int>{2}, std::vector<int>{1, 1}));

TEST(CommunicatorFaultTest, WithoutMemoryAnOperationThatWasStartedFails) {
  RanksInThreads ranks({1});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    const auto request = comm->start([]() -> base::Status { throw std::bad_alloc(); });
    EXPECT_EQ(request->wait().code(), base::Code::kResourceExhausted);
  });
}

// Not afterwards, when the worker's lock is taken that the next start() needs.
TEST(CommunicatorTest, WhatAnOperationHoldsIsGoneWhenItIsDone) {
  RanksInThreads ranks({1});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    std::latch is_started(1);
    std::shared_ptr<Request> request;
    std::atomic<bool> was_done{true};
    const auto look = [&](int* one) {
      delete one;
      was_done = request->test().has_value();
    };
    request = comm->start([&is_started, held = std::shared_ptr<int>(new int, look)] {
      is_started.wait();
      return base::ok_status();
    });
    is_started.count_down();
    EXPECT_TRUE(request->wait().ok());
    EXPECT_TRUE(comm->start([] { return base::ok_status(); })->wait().ok());
    EXPECT_FALSE(was_done);
  });
}

TEST(CommunicatorFaultTest, WithoutMemoryTheCommunicatorEndsForAll) {
  if (base::kIsSanitized) GTEST_SKIP() << "sanitizers end a program that asks for so much";
  RanksInThreads ranks({1, 1}, {.algorithm = "recursive_doubling"});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    float number = 1;
    const base::Status done =
        comm->rank() == 0 ? comm->allreduce(&number, &number, std::size_t{1} << 58, DType::kF32, RedOp::kSum, {})
                          : comm->barrier();
    EXPECT_EQ(done.code(), base::Code::kResourceExhausted) << done;
    EXPECT_NE(done.message().find("rank 0 ran out of memory"), std::string::npos) << done;
    EXPECT_EQ(comm->barrier().code(), base::Code::kResourceExhausted);
  });
}

TEST(CommunicatorFaultTest, ARankThatDoesNotComeIsNamedAtTheDeadline) {
  RanksInThreads ranks({3}, {.deadline = std::chrono::milliseconds(3000)});
  std::mutex mutex;
  std::condition_variable changed;
  int failed = 0;
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    if (comm->rank() == 2) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return failed == 2; });
      return;
    }
    std::int32_t one = 1;
    const base::Status done = comm->allreduce(&one, &one, 1, DType::kI32, RedOp::kSum, {});
    EXPECT_EQ(done.code(), base::Code::kDeadlineExceeded) << done;
    EXPECT_NE(done.message().find("rank 2 ("), std::string::npos) << done;
    EXPECT_EQ(comm->failure().rank, 2);
    const std::lock_guard lock(mutex);
    ++failed;
    changed.notify_all();
  });
}

TEST(CommunicatorFaultTest, ARankThatLeavesWithoutCallingIsNamed) {
  RanksInThreads ranks({3});
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    ASSERT_TRUE(comm->barrier().ok());
    if (comm->rank() == 1) return;  // its world says goodbye
    std::int32_t one = 1;
    const base::Status done = comm->allreduce(&one, &one, 1, DType::kI32, RedOp::kSum, {});
    EXPECT_EQ(done.code(), base::Code::kUnavailable) << done;
    EXPECT_NE(done.message().find("rank 1 ("), std::string::npos) << done;
  });
}

}  // namespace
}  // namespace muster::collectives::communicator_test
