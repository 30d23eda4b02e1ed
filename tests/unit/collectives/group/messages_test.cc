// Sends and receives between the ranks of a communicator, which are threads: on one host, between hosts, and both.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "collectives/group/communicator.h"
#include "tests/unit/collectives/support/ranks_in_threads.h"

namespace muster::collectives::messages_test {
namespace {

using std::chrono::milliseconds;
using Numbers = std::vector<std::int32_t>;

constexpr std::size_t kLarge = 700'003;  // more than a ring or a socket holds

// What `from` sends to `to` in step `step`.
Numbers message(int from, int to, int step, std::size_t count) {
  Numbers numbers(count);
  std::iota(numbers.begin(), numbers.end(), from * 1'000'000 + to * 10'000 + step * 100);
  return numbers;
}

base::Status send(Communicator& comm, const Numbers& numbers, int to, int tag = 0) {
  return comm.send(numbers.data(), numbers.size(), DType::kI32, to, tag);
}
std::shared_ptr<Request> start_send(Communicator& comm, const Numbers& numbers, int to, int tag = 0) {
  return comm.start_send(numbers.data(), numbers.size(), DType::kI32, to, tag);
}
base::Status receive(Communicator& comm, Numbers& into, int from, int tag = 0) {
  return comm.receive(into.data(), into.size(), DType::kI32, from, tag);
}
std::shared_ptr<Request> start_receive(Communicator& comm, Numbers& into, int from, int tag = 0) {
  return comm.start_receive(into.data(), into.size(), DType::kI32, from, tag);
}

class MessagesTest : public testing::TestWithParam<std::vector<int>> {
 protected:
  RanksInThreads ranks_{GetParam()};
};

TEST_P(MessagesTest, EveryPairInBothDirections) {
  ranks_.run([](const std::shared_ptr<Communicator>& comm) {
    const int rank = comm->rank();
    int step = 0;
    for (const std::size_t count : std::initializer_list<std::size_t>{0, 1, 33, 5003, kLarge}) {
      ++step;
      for (int a = 0; a < comm->size(); ++a) {
        for (int b = a + 1; b < comm->size(); ++b) {
          if (rank != a && rank != b) continue;  // does not take part
          const int peer = rank == a ? b : a;
          const Numbers own = message(rank, peer, step, count);
          Numbers got(count, -1);
          base::Status sent;
          if (rank == a) sent = send(*comm, own, peer, step);
          ASSERT_TRUE(receive(*comm, got, peer, step).ok());
          if (rank == b) sent = send(*comm, own, peer, step);
          ASSERT_TRUE(sent.ok()) << sent;
          EXPECT_EQ(got, message(peer, rank, step, count));
        }
      }
    }
  });
}

TEST_P(MessagesTest, LargeOnesInACircleWhenAllSendFirst) {
  ranks_.run([](const std::shared_ptr<Communicator>& comm) {
    const int next = (comm->rank() + 1) % comm->size();
    const int former = (comm->rank() + comm->size() - 1) % comm->size();
    for (int step = 0; step < 3; ++step) {
      const Numbers own = message(comm->rank(), next, step, kLarge);
      Numbers got(kLarge, -1);
      const auto sent = start_send(*comm, own, next);
      // One after the other, started and waited for.
      if (step == 0) {
        ASSERT_TRUE(receive(*comm, got, former).ok());
      } else {
        const auto received = start_receive(*comm, got, former);
        ASSERT_TRUE(received->wait().ok());
      }
      const base::Status done = sent->wait();
      ASSERT_TRUE(done.ok()) << done;
      EXPECT_EQ(got, message(former, comm->rank(), step, kLarge));
    }
  });
}

TEST_P(MessagesTest, ManyThatWereStartedArriveInOrder) {
  ranks_.run([](const std::shared_ptr<Communicator>& comm) {
    constexpr int kSteps = 50;
    std::vector<Numbers> own;
    std::vector<Numbers> got;
    std::vector<std::shared_ptr<Request>> requests;
    for (int step = 0; step < kSteps; ++step) {
      for (int peer = 0; peer < comm->size(); ++peer) {
        if (peer == comm->rank()) continue;
        const std::size_t count = static_cast<std::size_t>(step * step * 11);
        own.push_back(message(comm->rank(), peer, step, count));
        got.emplace_back(count, -1);
        requests.push_back(start_receive(*comm, got.back(), peer, step));
        requests.push_back(start_send(*comm, own.back(), peer, step));
      }
    }
    for (const auto& request : requests) {
      const base::Status done = request->wait();
      ASSERT_TRUE(done.ok()) << done;
      EXPECT_TRUE(request->test().has_value());
    }
    std::size_t at = 0;
    for (int step = 0; step < kSteps; ++step) {
      for (int peer = 0; peer < comm->size(); ++peer) {
        if (peer == comm->rank()) continue;
        ASSERT_EQ(got[at], message(peer, comm->rank(), step, got[at].size()));
        ++at;
      }
    }
  });
}

TEST_P(MessagesTest, CollectivesDoNotWaitForThem) {
  ranks_.run([](const std::shared_ptr<Communicator>& comm) {
    const int last = comm->size() - 1;
    Numbers got(kLarge, -1);
    std::shared_ptr<Request> received;
    if (comm->rank() == 0) received = start_receive(*comm, got, last);
    std::int64_t one = 1;
    ASSERT_TRUE(comm->allreduce(&one, &one, 1, DType::kI64, RedOp::kSum, {}).ok());
    EXPECT_EQ(one, comm->size());
    if (comm->rank() == last) {
      ASSERT_TRUE(send(*comm, message(last, 0, 1, kLarge), 0).ok());
    }
    if (received != nullptr) {
      ASSERT_TRUE(received->wait().ok());
      EXPECT_EQ(got, message(last, 0, 1, kLarge));
    }
    ASSERT_TRUE(comm->barrier().ok());
  });
}

TEST_P(MessagesTest, SeveralThreadsAndCommunicatorsAtOnce) {
  ranks_.run([](const std::shared_ptr<Communicator>& comm) {
    auto other = comm->split(0, -comm->rank());  // the same ranks backwards
    ASSERT_TRUE(other.ok()) << other.status();
    const auto exchange = [](Communicator& on, int first_tag) {
      const int next = (on.rank() + 1) % on.size();
      const int former = (on.rank() + on.size() - 1) % on.size();
      for (int step = 0; step < 40; ++step) {
        const std::size_t count = step % 8 == 0 ? 60'001 : 301;
        const Numbers own = message(on.rank(), next, step, count);
        Numbers got(count, -1);
        const auto sent = start_send(on, own, next, first_tag + step);
        ASSERT_TRUE(receive(on, got, former, first_tag + step).ok());
        ASSERT_TRUE(sent->wait().ok());
        ASSERT_EQ(got, message(former, on.rank(), step, count));
      }
    };
    std::thread beside([&] { exchange(**other, 1000); });
    std::thread collectives([&] {
      for (int i = 0; i < 40; ++i) {
        Numbers ones(500, 1);
        ASSERT_TRUE(comm->allreduce(ones.data(), ones.data(), ones.size(), DType::kI32, RedOp::kSum, {}).ok());
        ASSERT_EQ(ones, Numbers(500, comm->size()));
      }
    });
    exchange(*comm, 0);
    beside.join();
    collectives.join();
  });
}

TEST_P(MessagesTest, WhatWasSentByARankThatLeftArrives) {
  ranks_.run([](const std::shared_ptr<Communicator>& comm) {
    const int last = comm->size() - 1;
    // Both ways of connecting: the lower rank answers, the higher one calls.
    if (comm->rank() == last) {
      ASSERT_TRUE(send(*comm, message(last, 0, 1, 100), 0).ok());
      return;
    }
    if (comm->rank() != 0) return;
    Numbers got(100, -1);
    const base::Status done = receive(*comm, got, last);
    ASSERT_TRUE(done.ok()) << done;
    EXPECT_EQ(got, message(last, 0, 1, 100));
    // And no more.
    const base::Status none = receive(*comm, got, last);
    EXPECT_EQ(none.code(), base::Code::kUnavailable) << none;
    EXPECT_NE(none.message().find("rank " + std::to_string(last) + " ("), std::string::npos) << none;
  });
}

TEST_P(MessagesTest, SendingToARankThatHasLeftNamesIt) {
  ranks_.run([](const std::shared_ptr<Communicator>& comm) {
    const int last = comm->size() - 1;
    Numbers note(1, 5);
    if (comm->rank() == last) {
      ASSERT_TRUE(receive(*comm, note, 0).ok());
      return;
    }
    if (comm->rank() != 0) return;
    ASSERT_TRUE(send(*comm, note, last).ok());
    // Until its end is known, links take what fits.
    base::Status done;
    while (done.ok()) done = send(*comm, message(0, last, 1, kLarge), last);
    EXPECT_EQ(done.code(), base::Code::kUnavailable) << done;
    EXPECT_NE(done.message().find("rank " + std::to_string(last) + " ("), std::string::npos) << done;
    EXPECT_EQ(comm->failure().rank, last);
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, MessagesTest,
                         testing::Values(std::vector{2}, std::vector{5}, std::vector{1, 1}, std::vector{2, 2},
                                         std::vector{1, 1, 1}));

class MessageFaultTest : public testing::TestWithParam<std::vector<int>> {
 protected:
  // Rank 0 receives, rank 1 sends; both are told, and then all.
  void expect_mismatch(const std::function<base::Status(Communicator&)>& sends,
                       const std::function<base::Status(Communicator&)>& receives, const std::string& sent,
                       const std::string& received) {
    RanksInThreads ranks(GetParam());
    ranks.run([&](const std::shared_ptr<Communicator>& comm) {
      base::Status done;
      if (comm->rank() == 0) done = receives(*comm);
      if (comm->rank() == 1) {
        done = sends(*comm);
        // It may have gone before the receiver looked at it.
        Numbers answer(1);
        if (done.ok()) done = receive(*comm, answer, 0);
      }
      if (comm->rank() > 1) done = comm->barrier();
      EXPECT_EQ(done.code(), base::Code::kFailedPrecondition) << done;
      EXPECT_NE(done.message().find("rank 1 ("), std::string::npos) << done;
      EXPECT_NE(done.message().find(") called send of " + sent), std::string::npos) << done;
      EXPECT_NE(done.message().find(") called recv of " + received), std::string::npos) << done;
      EXPECT_EQ(comm->failure().rank, 1);
      EXPECT_EQ(comm->barrier().code(), base::Code::kFailedPrecondition);
    });
  }
};

TEST_P(MessageFaultTest, AnotherCountTypeOrTag) {
  Numbers numbers(8, 1);
  const auto sends = [&](Communicator& comm) { return send(comm, numbers, 1 - comm.rank(), 3); };
  expect_mismatch(
      sends,
      [](Communicator& comm) {
        Numbers seven(7);
        return receive(comm, seven, 1, 3);
      },
      "8 int32, tag 3", "7 int32, tag 3");
  expect_mismatch(
      sends,
      [](Communicator& comm) {
        std::vector<double> eight(8);
        return comm.receive(eight.data(), 8, DType::kF64, 1, 3);
      },
      "8 int32, tag 3", "8 float64, tag 3");
  expect_mismatch(
      sends,
      [](Communicator& comm) {
        Numbers eight(8);
        return receive(comm, eight, 1, 4);
      },
      "8 int32, tag 3", "8 int32, tag 4");
}

TEST_P(MessageFaultTest, WhoDoesNotSendIsNamedAtTheDeadline) {
  RanksInThreads ranks(GetParam(), {.deadline = milliseconds(3000)});
  std::mutex mutex;
  std::condition_variable changed;
  bool is_over = false;
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    Numbers numbers(8);
    if (comm->rank() != 0) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return is_over; });
      return;
    }
    const auto request = start_receive(*comm, numbers, 1, 3);
    EXPECT_FALSE(request->wait_for(milliseconds(1)).has_value());
    const base::Status done = request->wait();
    EXPECT_EQ(done.code(), base::Code::kDeadlineExceeded) << done;
    EXPECT_NE(done.message().find("recv of 8 int32, tag 3: no data from rank 1 ("), std::string::npos) << done;
    EXPECT_EQ(comm->failure().rank, 1);
    EXPECT_EQ(start_receive(*comm, numbers, 1, 3)->wait().code(), base::Code::kDeadlineExceeded);
    const std::lock_guard lock(mutex);
    is_over = true;
    changed.notify_all();
  });
}

TEST_P(MessageFaultTest, WhatCannotBeIsRefusedAndHarmless) {
  RanksInThreads ranks(GetParam());
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    Numbers numbers(8);
    for (const int peer : {-1, comm->rank(), comm->size()}) {
      EXPECT_EQ(send(*comm, numbers, peer).code(), base::Code::kInvalidArgument);
      EXPECT_EQ(receive(*comm, numbers, peer).code(), base::Code::kInvalidArgument);
      EXPECT_EQ(start_send(*comm, numbers, peer)->wait().code(), base::Code::kInvalidArgument);
      EXPECT_EQ(start_receive(*comm, numbers, peer)->wait().code(), base::Code::kInvalidArgument);
    }
    EXPECT_EQ(send(*comm, numbers, comm->rank() == 0 ? 1 : 0, -1).code(), base::Code::kInvalidArgument);
    EXPECT_TRUE(comm->barrier().ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, MessageFaultTest,
                         testing::Values(std::vector{2}, std::vector{3}, std::vector{1, 1}, std::vector{2, 1}));

}  // namespace
}  // namespace muster::collectives::messages_test
