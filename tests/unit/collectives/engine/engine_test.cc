// The engine between ranks that are threads of the test.
#include "collectives/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <cmath>
#include <future>
#include <random>

#include "tests/unit/collectives/engine/engine_support.h"

namespace muster::collectives::engine_test {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

class EngineTest : public testing::TestWithParam<std::vector<int>> {};

TEST_P(EngineTest, TensorsInAnyOrderOnEachRankAreReducedByName) {
  constexpr std::size_t kTensors = 300;
  with_engines(GetParam(), [&](Engine& engine) {
    std::mt19937 random(static_cast<unsigned>(engine.rank()));
    for (int step = 0; step < 3; ++step) {
      std::vector<std::vector<float>> data;
      for (std::size_t i = 0; i < kTensors; ++i) {
        data.emplace_back(1 + i % 70, static_cast<float>(i) + static_cast<float>(engine.rank()));
      }
      reduce_in_any_order(engine, data, random);
      const int ranks = engine.size();
      for (std::size_t i = 0; i < kTensors; ++i) {
        const auto sum = static_cast<float>(static_cast<int>(i) * ranks + ranks * (ranks - 1) / 2);
        ASSERT_EQ(data[i], std::vector<float>(1 + i % 70, sum)) << i;
      }
    }
  });
}

Submission buffer_of(const std::string& name, std::int64_t bytes) {
  return {.name = name,
          .signature = {.kind = Kind::kBuffer, .tensors = {{DType::kU8, {bytes}}}},
          .tensors = {{nullptr, nullptr}}};
}

TEST_P(EngineTest, TensorsInASharedBufferAreReducedWhereTheyLie) {
  constexpr std::size_t kElements = 300'000;
  with_engines(GetParam(), [&](Engine& engine) {
    auto made = engine.submit(buffer_of("buffer", 2 * kElements * sizeof(float)));
    ASSERT_EQ(finish(made).message(), "");
    auto* const data = static_cast<float*>(const_cast<void*>((*made)->outputs()[0].place()));
    ASSERT_NE(data, nullptr);
    for (int step = 0; step < 3; ++step) {
      std::fill(data, data + kElements, static_cast<float>(engine.rank()));
      std::fill(data + kElements, data + 2 * kElements, 2.0F);
      std::vector<std::shared_ptr<Ticket>> tickets;
      for (std::size_t part = 0; part < 2; ++part) {
        float* const own = data + part * kElements;
        auto ticket = engine.submit({.name = "part " + std::to_string(part),
                                     .signature = {.kind = Kind::kAllreduce,
                                                   .tensors = {{DType::kF32, {std::int64_t{kElements}}}},
                                                   .is_alone = true},
                                     .tensors = {{own, own}}});
        ASSERT_TRUE(ticket.ok()) << ticket.status();
        tickets.push_back(*ticket);
      }
      for (const auto& ticket : tickets) ASSERT_EQ(finish(ticket).message(), "");
      const int ranks = engine.size();
      EXPECT_EQ(std::count(data, data + kElements, static_cast<float>(ranks * (ranks - 1) / 2)), kElements);
      EXPECT_EQ(std::count(data + kElements, data + 2 * kElements, 2.0F * static_cast<float>(ranks)), kElements);
    }
  });
}

TEST(EngineBufferTest, RanksMustAskForTheSame) {
  with_engines({2}, [&](Engine& engine) {
    EXPECT_THAT(finish(engine.submit(buffer_of("buffer", 100 + engine.rank()))).message(),
                HasSubstr("ranks differ in 'buffer': rank 0 wants buffer of uint8[100], rank 1 wants"));
    Submission floats = buffer_of("floats", 8);
    floats.signature.tensors.front().type = DType::kF32;
    EXPECT_EQ(engine.submit(floats).status().code(), base::Code::kInvalidArgument);
    std::vector<float> data(4, 1.0F);
    Submission alone = allreduce("alone", data);
    alone.signature.is_alone = engine.rank() == 0;
    EXPECT_THAT(finish(engine.submit(alone)).message(), HasSubstr("sum, by itself, rank 1 wants"));
    ASSERT_EQ(finish(engine.submit(buffer_of("empty", 0))).message(), "");
  });
}

TEST(EngineBufferTest, ABufferLivesLongerThanItsEngine) {
  std::vector<std::shared_ptr<Ticket>> kept(2);
  with_engines({2}, [&](Engine& engine) {
    auto made = engine.submit(buffer_of("buffer", 1 << 20));
    ASSERT_EQ(finish(made).message(), "");
    kept[static_cast<std::size_t>(engine.rank())] = *made;
  });
  for (const auto& ticket : kept) {
    auto* const data = static_cast<std::byte*>(const_cast<void*>(ticket->outputs()[0].place()));
    std::fill(data, data + (1 << 20), std::byte{1});
  }
}

TEST_P(EngineTest, EveryKindOfOperation) {
  with_engines(GetParam(), [&](Engine& engine) {
    const int rank = engine.rank();
    const int ranks = engine.size();
    for (int round = 0; round < 3; ++round) {  // announced, and then from the cache
      // Rank r has r + 1 rows of two.
      const std::vector<std::int32_t> own(static_cast<std::size_t>(2 * (rank + 1)), rank);
      auto gathered = engine.submit(of_rows(Kind::kAllgather, "gather", own, 2));
      std::vector<double> told(5, rank);
      Submission broadcast = allreduce("broadcast", told);
      broadcast.signature.kind = Kind::kBroadcast;
      broadcast.signature.root = ranks - 1;
      auto told_ticket = engine.submit(broadcast);
      // One row to every rank but the last one, which gets two.
      std::vector<std::int32_t> rows(static_cast<std::size_t>(ranks + 1), rank);
      Submission alltoall = of_rows(Kind::kAlltoall, "alltoall", rows, 1);
      alltoall.signature.splits.assign(static_cast<std::size_t>(ranks), 1);
      alltoall.signature.splits.back() = 2;
      auto exchanged = engine.submit(alltoall);
      const std::vector<float> scattered(static_cast<std::size_t>(ranks + 1), 2.0F);
      auto part = engine.submit(of_rows(Kind::kReduceScatter, "scatter", scattered, 1));
      auto met = engine.submit({.name = "barrier", .signature = {.kind = Kind::kBarrier}, .tensors = {}});

      ASSERT_EQ(finish(gathered).message(), "");
      std::vector<std::int32_t> expected;
      for (int i = 0; i < ranks; ++i) expected.insert(expected.end(), static_cast<std::size_t>(2 * (i + 1)), i);
      EXPECT_EQ(values_of<std::int32_t>((*gathered)->outputs()[0]), expected);
      EXPECT_THAT((*gathered)->outputs()[0].spec.shape, ElementsAre(ranks * (ranks + 1) / 2, 2));
      ASSERT_EQ(finish(told_ticket).message(), "");
      EXPECT_EQ(told, std::vector<double>(5, ranks - 1));
      ASSERT_EQ(finish(exchanged).message(), "");
      expected.clear();
      for (int i = 0; i < ranks; ++i) expected.insert(expected.end(), rank == ranks - 1 ? 2 : 1, i);
      EXPECT_EQ(values_of<std::int32_t>((*exchanged)->outputs()[0]), expected);
      ASSERT_EQ(finish(part).message(), "");
      EXPECT_EQ(values_of<float>((*part)->outputs()[0]),
                std::vector<float>(rank == 0 ? 2 : 1, static_cast<float>(2 * ranks)));
      EXPECT_EQ(finish(met).message(), "");
    }
  });
}

TEST_P(EngineTest, ATensorThatRanksDescribeDifferentlyFailsAlone) {
  with_engines(GetParam(), [&](Engine& engine) {
    std::vector<float> good(10, 1);
    for (int round = 0; round < 2; ++round) {  // the second time, the good shape is known
      std::vector<float> odd(engine.rank() == 0 && round == 0 ? 3 : 4, 1);
      auto failing = engine.submit(allreduce("odd", odd));
      auto working = engine.submit(allreduce("good", good));
      const base::Status status = finish(failing);
      if (round == 0 && engine.size() > 1) {
        EXPECT_EQ(status.code(), base::Code::kFailedPrecondition) << status;
        EXPECT_THAT(status.message(), HasSubstr("rank 0 wants allreduce of float32[3], sum"));
      } else {
        EXPECT_EQ(status.message(), "");
      }
      EXPECT_EQ(finish(working).message(), "");
    }
  });
}

TEST_P(EngineTest, AShapeMayChangeFromOneTimeToTheNext) {
  with_engines(GetParam(), [&](Engine& engine) {
    for (const std::size_t size : {5U, 5U, 8U, 8U, 5U}) {
      std::vector<float> data(size, 1);
      ASSERT_EQ(finish(engine.submit(allreduce("changing", data))).message(), "");
      EXPECT_EQ(data, std::vector<float>(size, static_cast<float>(engine.size())));
    }
  });
}

TEST_P(EngineTest, RanksThatHaveJoinedContributeNothing) {
  with_engines(GetParam(), [&](Engine& engine) {
    // Rank r has r + 1 batches.
    for (int batch = 0; batch <= engine.rank(); ++batch) {
      std::vector<float> data(100, 1);
      ASSERT_EQ(finish(engine.submit(allreduce("gradient", data))).message(), "");
      EXPECT_EQ(data, std::vector<float>(100, static_cast<float>(engine.size() - batch)));
    }
    auto join = engine.submit({.name = "join", .signature = {.kind = Kind::kJoin}, .tensors = {}});
    ASSERT_EQ(finish(join).message(), "");
    EXPECT_EQ((*join)->last_joined(), engine.size() - 1);
    std::vector<float> data(10, 1);  // and all take part again
    ASSERT_EQ(finish(engine.submit(allreduce("after", data))).message(), "");
    EXPECT_EQ(data, std::vector<float>(10, static_cast<float>(engine.size())));
  });
}

TEST_P(EngineTest, TheLastTensorAndTheJoinMayComeTogether) {
  with_engines(GetParam(), [&](Engine& engine) {
    for (int round = 0; round < 3; ++round) {
      std::vector<float> data(100, 1);
      base::Result<std::shared_ptr<Ticket>> last = std::shared_ptr<Ticket>();
      const bool is_last = engine.rank() == engine.size() - 1;
      if (is_last) last = engine.submit(allreduce("gradient", data));
      auto join = engine.submit({.name = "join", .signature = {.kind = Kind::kJoin}, .tensors = {}});
      ASSERT_EQ(finish(join).message(), "");
      if (!is_last) continue;
      ASSERT_EQ(finish(last).message(), "");
      EXPECT_EQ(data, std::vector<float>(100, 1));
    }
  });
}

TEST_P(EngineTest, AfterAJoinOnlySumsArePossible) {
  with_engines(GetParam(), [&](Engine& engine) {
    if (engine.rank() == 0 && engine.size() > 1) {
      std::vector<float> data(3, -3);
      const base::Status status = finish(engine.submit(allreduce("most", data, RedOp::kMax)));
      EXPECT_THAT(status.message(), HasSubstr("which is no longer possible: rank 1 has joined"));
    }
    auto join = engine.submit({.name = "join", .signature = {.kind = Kind::kJoin}, .tensors = {}});
    ASSERT_EQ(finish(join).message(), "");
  });
}

TEST_P(EngineTest, AReduceScatterScalesItsInputsAndItsResult) {
  with_engines(GetParam(), [&](Engine& engine) {
    const auto ranks = static_cast<std::size_t>(engine.size());
    const std::vector<float> in(ranks, 3);
    Submission product = of_rows(Kind::kReduceScatter, "product", in, 1);
    product.signature.op = RedOp::kProd;
    product.signature.before = 2;
    product.signature.after = 0.5;
    auto done = engine.submit(product);
    ASSERT_EQ(finish(done).message(), "");
    EXPECT_THAT(values_of<float>((*done)->outputs()[0]),
                ElementsAre(static_cast<float>(std::pow(6.0, static_cast<double>(ranks)) / 2)));
    Submission empty = of_rows(Kind::kReduceScatter, "empty", in, 1);
    empty.signature.tensors[0].shape = {static_cast<std::int64_t>(2 * ranks), 0};
    done = engine.submit(empty);
    ASSERT_EQ(finish(done).message(), "");
    EXPECT_THAT((*done)->outputs()[0].spec.shape, ElementsAre(2, 0));
  });
}

TEST_P(EngineTest, ResultsLiveAsLongAsTheirTicketOnly) {
  with_engines(GetParam(), [&](Engine& engine) {
    const std::vector<float> in(10, 1);
    auto done = engine.submit(of_rows(Kind::kAllgather, "gather", in, 1));
    ASSERT_EQ(finish(done).message(), "");
    const std::weak_ptr<Ticket> ticket = *done;
    done = base::Status(base::Code::kAborted, "let go of");
    // The engine lets go of it in the course of the turn that has done it.
    ASSERT_EQ(
        finish(engine.submit({.name = "barrier", .signature = {.kind = Kind::kBarrier}, .tensors = {}})).message(), "");
    EXPECT_TRUE(ticket.expired());
  });
}

TEST_P(EngineTest, AGroupIsOneTensorOfSeveral) {
  with_engines(GetParam(), [&](Engine& engine) {
    std::vector<float> a(3, 1);
    std::vector<double> b(7, 2);
    Submission group = allreduce("group", a);
    group.signature.tensors.push_back({DType::kF64, {7}});
    group.tensors.push_back({b.data(), b.data()});
    ASSERT_EQ(finish(engine.submit(group)).message(), "");
    EXPECT_EQ(a, std::vector<float>(3, static_cast<float>(engine.size())));
    EXPECT_EQ(b, std::vector<double>(7, 2.0 * engine.size()));
  });
}

TEST_P(EngineTest, WithoutAFusionBufferOrACacheAllIsTheSame) {
  with_engines(GetParam(),
               [&](Engine& engine) {
                 for (int step = 0; step < 3; ++step) {
                   std::vector<float> a(30, 1);
                   std::vector<float> b(40, 2);
                   auto first = engine.submit(allreduce("a", a, RedOp::kMax));
                   auto second = engine.submit(allreduce("b", b, RedOp::kMax));
                   ASSERT_EQ(finish(first).message(), "");
                   ASSERT_EQ(finish(second).message(), "");
                   EXPECT_EQ(b, std::vector<float>(40, 2));
                 }
               },
               {.fusion_bytes = 0, .cache_capacity = 0});
}

TEST_P(EngineTest, ACacheThatIsTooSmallForgetsTheOldest) {
  with_engines(GetParam(),
               [&](Engine& engine) {
                 for (int i = 0; i < 60; ++i) {
                   std::vector<float> data(4, 1);
                   ASSERT_EQ(finish(engine.submit(allreduce("tensor " + std::to_string(i % 5), data))).message(), "");
                   EXPECT_EQ(data, std::vector<float>(4, static_cast<float>(engine.size())));
                 }
               },
               {.cache_capacity = 3});
}

INSTANTIATE_TEST_SUITE_P(Shapes, EngineTest,
                         testing::Values(std::vector<int>{1}, std::vector<int>{2}, std::vector<int>{4},
                                         std::vector<int>{1, 1}, std::vector<int>{2, 1}));

TEST(EngineUseTest, WhatCannotBeDoneIsSaidAtOnce) {
  with_engines({1}, [&](Engine& engine) {
    std::vector<float> data(4, 1);
    Submission broadcast = allreduce("broadcast", data);
    broadcast.signature.kind = Kind::kBroadcast;
    broadcast.signature.root = 1;
    EXPECT_EQ(engine.submit(broadcast).status().code(), base::Code::kInvalidArgument);
    Submission empty = allreduce("empty", data);
    empty.signature.tensors.clear();
    empty.tensors.clear();
    EXPECT_EQ(engine.submit(empty).status().code(), base::Code::kInvalidArgument);
    Submission negative = allreduce("negative", data);
    negative.signature.tensors[0].shape = {-1};
    EXPECT_EQ(engine.submit(negative).status().code(), base::Code::kInvalidArgument);
    Submission scaled = allreduce("scaled", data);
    scaled.signature.before = std::nan("");
    EXPECT_EQ(engine.submit(scaled).status().code(), base::Code::kInvalidArgument);
  });
}

TEST(EngineUseTest, ANameIsTakenUntilItsTensorIsDoneAndLateRanksAreKnown) {
  std::barrier<> together(2);
  with_engines({2}, [&](Engine& engine) {
    std::vector<float> data(4, 1);
    if (engine.rank() == 1) {
      together.arrive_and_wait();
      EXPECT_EQ(finish(engine.submit(allreduce("name", data))).message(), "");
      return;
    }
    std::vector<float> other(4, 1);
    const auto first = engine.submit(allreduce("name", data));
    const auto second = engine.submit(allreduce("name", other));
    EXPECT_EQ(second.status().code(), base::Code::kAlreadyExists);
    EXPECT_THAT(second.status().message(), HasSubstr("'name'"));
    together.arrive_and_wait();
    EXPECT_EQ(finish(first).message(), "");
  });
}

TEST(EngineUseTest, AfterAShutdownEverythingFailsEverywhere) {
  RanksInThreads ranks({2});
  std::barrier<> together(2);
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    auto engine = Engine::start(*comm);
    ASSERT_TRUE(engine.ok()) << engine.status();
    together.arrive_and_wait();
    std::vector<float> data(4, 1);
    if (comm->rank() == 0) {
      const auto waiting = (*engine)->submit(allreduce("never", data));
      const base::Status status = finish(waiting);
      EXPECT_THAT(status.message(), testing::MatchesRegex("rank 1 \\(.*\\) has shut down"));
      EXPECT_FALSE((*engine)->submit(allreduce("later", data)).ok());
    } else {
      (*engine)->shut_down(kPatience);
    }
    together.arrive_and_wait();
  });
}

TEST(EngineUseTest, ARankThatIsGoneWithoutAWordFailsTheOthers) {
  RanksInThreads ranks({2, 1});
  std::barrier<> together(3);  // a start on one rank fails with another's end, too
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    auto engine = Engine::start(*comm);
    together.arrive_and_wait();
    ASSERT_TRUE(engine.ok()) << engine.status();
    if (comm->rank() == 2) return;  // the engine's end, without shut_down()
    std::vector<float> data(4, 1);
    EXPECT_FALSE(finish((*engine)->submit(allreduce("never", data))).ok());
  });
}

}  // namespace
}  // namespace muster::collectives::engine_test
