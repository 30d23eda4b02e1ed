#include "collectives/transport/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <latch>
#include <numeric>
#include <vector>

#include "tests/unit/collectives/transport/test_world.h"

namespace muster::collectives::exchange_test {
namespace {

using base::Code;
using Bytes = std::vector<std::byte>;

Operation operation_of(std::uint64_t sequence, DType type = DType::kF32) {
  return {sequence, {.count = 8, .op = Op::kAllreduce, .type = type}};
}

Bytes bytes_of(int from, int to, std::size_t size) {
  return Bytes(size, static_cast<std::byte>(from * 16 + to));
}

base::Status all_to_all(Exchange& exchange, const Operation& operation, std::size_t size) {
  std::vector<Bytes> sent;
  std::vector<Bytes> received;
  exchange.begin(operation, Algorithm::kOneShot);
  for (int peer = 0; peer < exchange.size(); ++peer) {
    sent.push_back(bytes_of(exchange.rank(), peer, size));
    received.emplace_back(size);
  }
  for (int peer = 0; peer < exchange.size(); ++peer) {
    if (peer == exchange.rank()) continue;
    MUSTER_RETURN_IF_ERROR(exchange.send(peer, sent[static_cast<std::size_t>(peer)]));
    MUSTER_RETURN_IF_ERROR(exchange.receive(peer, received[static_cast<std::size_t>(peer)]));
  }
  MUSTER_RETURN_IF_ERROR(exchange.run());
  for (int peer = 0; peer < exchange.size(); ++peer) {
    if (peer == exchange.rank()) continue;
    EXPECT_EQ(received[static_cast<std::size_t>(peer)], bytes_of(peer, exchange.rank(), size));
  }
  return base::ok_status();
}

class ExchangeTest : public ::testing::TestWithParam<Wire> {};

TEST_P(ExchangeTest, MovesMessagesOfAllSizesBothWays) {
  TestWorld world(GetParam(), 4);
  const auto results = world.run([](Exchange& exchange) {
    std::uint64_t sequence = 0;
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{100'000}}) {
      for (int i = 0; i < 20; ++i) MUSTER_RETURN_IF_ERROR(all_to_all(exchange, operation_of(sequence++), size));
    }
    return base::ok_status();
  });
  for (const base::Status& result : results) EXPECT_TRUE(result.ok()) << result;
}

TEST_P(ExchangeTest, BytesMayBeGivenAsTheyBecomeReady) {
  // A chain: each rank hands on what it has got so far.
  constexpr std::size_t kSize = 300'000;
  TestWorld world(GetParam(), 3);
  const auto results = world.run([](Exchange& exchange) -> base::Status {
    Bytes data(kSize);
    if (exchange.rank() == 0) std::ranges::fill(data, std::byte{42});
    exchange.begin(operation_of(0), Algorithm::kChain);
    Incoming* from = nullptr;
    Outgoing* to = nullptr;
    if (exchange.rank() > 0) {
      MUSTER_ASSIGN_OR_RETURN(from, exchange.open_receive(exchange.rank() - 1, kSize));
      from->provide(data);
    }
    if (exchange.rank() < 2) {
      MUSTER_ASSIGN_OR_RETURN(to, exchange.open_send(exchange.rank() + 1, kSize));
    }
    MUSTER_RETURN_IF_ERROR(exchange.run([&] {
      const std::size_t ready = from == nullptr ? kSize : from->received();
      if (to != nullptr && to->needs_more()) to->provide(std::span(data).subspan(to->sent(), ready - to->sent()));
    }));
    EXPECT_EQ(std::ranges::count(data, std::byte{42}), static_cast<std::ptrdiff_t>(kSize));
    return base::ok_status();
  });
  for (const base::Status& result : results) EXPECT_TRUE(result.ok()) << result;
}

TEST_P(ExchangeTest, DifferentCallsNameThePeerAndBoth) {
  TestWorld world(GetParam(), 2);
  const auto results = world.run([](Exchange& exchange) {
    return all_to_all(exchange, operation_of(5, exchange.rank() == 0 ? DType::kF32 : DType::kF64), 32);
  });
  EXPECT_EQ(results[0].code(), Code::kFailedPrecondition);
  EXPECT_EQ(results[0].message(),
            "rank 1 (n0) called allreduce of 8 float64, sum; rank 0 (n0) called allreduce of 8 float32, sum");
  EXPECT_EQ(results[1].message(),
            "rank 0 (n0) called allreduce of 8 float32, sum; rank 1 (n0) called allreduce of 8 float64, sum");
}

TEST_P(ExchangeTest, AnOperationLeftOutIsFound) {
  TestWorld world(GetParam(), 2);
  const auto results = world.run(
      [](Exchange& exchange) { return all_to_all(exchange, operation_of(exchange.rank() == 0 ? 17 : 18), 32); });
  EXPECT_EQ(results[0].code(), Code::kFailedPrecondition);
  EXPECT_NE(results[0].message().find("is at operation 18 of this communicator, rank 0 (n0) at 17"), std::string::npos)
      << results[0];
}

TEST_P(ExchangeTest, AnotherLengthOrAlgorithmIsFound) {
  for (const bool is_length : {true, false}) {
    TestWorld world(GetParam(), 2);
    const auto results = world.run([&](Exchange& exchange) -> base::Status {
      const bool is_first = exchange.rank() == 0;
      exchange.begin(operation_of(1), is_first || is_length ? Algorithm::kRing : Algorithm::kPairwise);
      Bytes sent(is_first || !is_length ? 32 : 16);
      Bytes received(sent.size());
      MUSTER_RETURN_IF_ERROR(exchange.send(1 - exchange.rank(), sent));
      MUSTER_RETURN_IF_ERROR(exchange.receive(1 - exchange.rank(), received));
      return exchange.run();
    });
    for (const base::Status& result : results) {
      EXPECT_EQ(result.code(), Code::kFailedPrecondition);
      EXPECT_NE(result.message().find(is_length ? "bytes in allreduce" : "another algorithm"), std::string::npos);
    }
  }
}

TEST_P(ExchangeTest, BytesThatAreNoMessageAreRefused) {
  TestWorld world(GetParam(), 2);
  const auto results = world.run([](Exchange& exchange) -> base::Status {
    if (exchange.rank() == 0) return all_to_all(exchange, operation_of(1), 32);
    const Bytes noise(4096, std::byte{0x5a});
    (*exchange.peers().link(0))->try_send({}, noise);
    return base::ok_status();
  });
  EXPECT_EQ(results[0].code(), Code::kDataLoss);
}

TEST_P(ExchangeTest, APeerThatLeavesIsNamed) {
  TestWorld world(GetParam(), 3);
  const auto results = world.run([&](Exchange& exchange) -> base::Status {
    MUSTER_RETURN_IF_ERROR(all_to_all(exchange, operation_of(1), 50'000));
    if (exchange.rank() == 2) {
      world.leave(2);
      return base::ok_status();
    }
    const base::Status status = all_to_all(exchange, operation_of(2), 50'000);
    EXPECT_EQ(exchange.failed_peer(), 2);
    return status;
  });
  for (const int rank : {0, 1}) {
    EXPECT_EQ(results[static_cast<std::size_t>(rank)].code(), Code::kUnavailable);
    EXPECT_NE(results[static_cast<std::size_t>(rank)].message().find("rank 2 (n1)"), std::string::npos);
  }
}

TEST_P(ExchangeTest, ARaisedAbortEndsTheWait) {
  TestWorld world(GetParam(), 2);
  const auto results = world.run([&](Exchange& exchange) -> base::Status {
    if (exchange.rank() == 0) return all_to_all(exchange, operation_of(1), 32);
    world.abort.raise({Code::kAborted, 1, "n0", "rank 1 (n0) was killed by signal 9"});
    return base::ok_status();
  });
  EXPECT_EQ(results[0].code(), Code::kAborted);
  EXPECT_EQ(results[0].message(), "rank 1 (n0) was killed by signal 9");
}

TEST_P(ExchangeTest, SilenceEndsAtTheDeadline) {
  TestWorld world(GetParam(), 2);
  world.policy.deadline = std::chrono::milliseconds(50);
  const auto results = world.run([](Exchange& exchange) -> base::Status {
    if (exchange.rank() == 1) return base::ok_status();
    const base::Status status = all_to_all(exchange, operation_of(1), 32);
    EXPECT_EQ(exchange.failed_peer(), 1);
    return status;
  });
  EXPECT_EQ(results[0].code(), Code::kDeadlineExceeded);
  EXPECT_EQ(results[0].message(), "no data from rank 1 (n0) for 50 ms during allreduce of 8 float32, sum");
}

// Its process ends without a destructor: the ring stays as it is, a connection is closed by the kernel.
TEST_P(ExchangeTest, WhatARankSentBeforeItsEndCountsAndNothingMoreIsWaitedFor) {
  TestWorld world(GetParam(), 2);
  std::latch has_sent(1);
  world.peers[0]->gone = 1;
  const auto results = world.run([&](Exchange& exchange) -> base::Status {
    Bytes bytes(100);
    if (exchange.rank() == 1) {
      exchange.begin(operation_of(1), Algorithm::kDirect);
      MUSTER_RETURN_IF_ERROR(exchange.send(0, bytes));
      const base::Status sent = exchange.run();
      if (GetParam() != Wire::kRing) world.leave(1);
      has_sent.count_down();
      return sent;
    }
    has_sent.wait();
    exchange.begin(operation_of(1), Algorithm::kDirect);
    MUSTER_RETURN_IF_ERROR(exchange.receive(1, bytes));
    EXPECT_TRUE(exchange.run().ok());
    exchange.begin(operation_of(2), Algorithm::kDirect);
    MUSTER_RETURN_IF_ERROR(exchange.receive(1, bytes));
    const base::Status status = exchange.run();
    EXPECT_EQ(exchange.failed_peer(), 1);
    return status;
  });
  EXPECT_TRUE(results[1].ok()) << results[1];
  EXPECT_EQ(results[0].code(), Code::kUnavailable) << results[0];
}

// A ring that nobody empties any more.
TEST_P(ExchangeTest, ARankThatHasEndedIsNotWaitedForToTakeMore) {
  TestWorld world(GetParam(), 2);
  world.peers[0]->gone = 1;
  if (GetParam() != Wire::kRing) world.leave(1);
  const auto results = world.run([&](Exchange& exchange) -> base::Status {
    if (exchange.rank() == 1) return base::ok_status();
    Bytes bytes(8 << 20);
    exchange.begin(operation_of(1), Algorithm::kDirect);
    MUSTER_RETURN_IF_ERROR(exchange.send(1, bytes));
    return exchange.run();
  });
  EXPECT_EQ(results[0].code(), Code::kUnavailable) << results[0];
}

TEST_P(ExchangeTest, WhoSleepsIsWoken) {
  TestWorld world(GetParam(), 2);
  world.policy.awake = std::chrono::microseconds(0);  // asleep at once
  const auto results = world.run([](Exchange& exchange) {
    for (std::uint64_t i = 0; i < 200; ++i) {
      MUSTER_RETURN_IF_ERROR(all_to_all(exchange, operation_of(i), i % 2 == 0 ? 8 : 40'000));
    }
    return base::ok_status();
  });
  for (const base::Status& result : results) EXPECT_TRUE(result.ok()) << result;
}

INSTANTIATE_TEST_SUITE_P(Wires, ExchangeTest, ::testing::Values(Wire::kRing, Wire::kTcp, Wire::kSealed),
                         [](const auto& param) { return name_of(param.param); });

}  // namespace
}  // namespace muster::collectives::exchange_test
