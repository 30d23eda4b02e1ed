// What settings do to a whole engine, and what is large: many tensors, long vectors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "tests/unit/collectives/engine/engine_support.h"

namespace muster::collectives::engine_settings_test {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Several tensors at once, so that they are packed together.
void reduce_many(Engine& engine, std::size_t tensors, std::size_t elements) {
  std::vector<std::vector<float>> data;
  for (std::size_t i = 0; i < tensors; ++i) {
    data.emplace_back(elements + 13 * i);
    for (std::size_t k = 0; k < data[i].size(); ++k) data[i][k] = static_cast<float>((k + i) % 1000);
  }
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (std::size_t i = 0; i < tensors; ++i) {
    auto ticket = engine.submit(allreduce("packed " + std::to_string(i), data[i]));
    ASSERT_TRUE(ticket.ok()) << ticket.status();
    tickets.push_back(*ticket);
  }
  for (const auto& ticket : tickets) ASSERT_EQ(finish(ticket).message(), "");
  for (std::size_t i = 0; i < tensors; ++i) {
    for (std::size_t k = 0; k < data[i].size(); ++k) {
      ASSERT_EQ(data[i][k], static_cast<float>(engine.size()) * static_cast<float>((k + i) % 1000)) << i << " " << k;
    }
  }
}

class FusionTest : public testing::TestWithParam<std::vector<int>> {};

TEST_P(FusionTest, VectorsLongerThanAChunkArePackedAndUnpackedInPieces) {
  with_engines(GetParam(), [](Engine& engine) {
    reduce_many(engine, 3, 400'000);    // several chunks of a host
    reduce_many(engine, 5, 1'500'000);  // several chunks between hosts
    reduce_many(engine, 200, 3);
  });
}

TEST_P(FusionTest, ARankThatHasJoinedPacksZeros) {
  with_engines(GetParam(), [](Engine& engine) {
    std::vector<float> a(500'000, 1);
    std::vector<float> b(300'001, 2);
    if (engine.rank() != 0) {
      const auto first = engine.submit(allreduce("a", a));
      const auto second = engine.submit(allreduce("b", b));
      ASSERT_EQ(finish(first).message(), "");
      ASSERT_EQ(finish(second).message(), "");
      const auto others = static_cast<float>(engine.size() - 1);
      EXPECT_EQ(a, std::vector<float>(a.size(), others));
      EXPECT_EQ(b, std::vector<float>(b.size(), 2 * others));
    }
    ASSERT_EQ(finish(engine.submit({.name = "join", .signature = {.kind = Kind::kJoin}, .tensors = {}})).message(), "");
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, FusionTest,
                         testing::Values(std::vector<int>{2}, std::vector<int>{3}, std::vector<int>{1, 1},
                                         std::vector<int>{2, 2}));

TEST(EngineSettingsTest, ManyTensorsInDifferentOrdersOnEachRank) {
  constexpr std::size_t kTensors = 10'000;
  with_engines({2}, [&](Engine& engine) {
    std::mt19937 random(static_cast<unsigned>(engine.rank()));
    std::vector<std::vector<float>> data;
    for (std::size_t i = 0; i < kTensors; ++i) data.emplace_back(3, static_cast<float>(i));
    reduce_in_any_order(engine, data, random);
    for (std::size_t i = 0; i < kTensors; ++i) ASSERT_EQ(data[i], std::vector<float>(3, 2 * static_cast<float>(i)));
  });
}

TEST(EngineSettingsTest, WhatRanksHaveToAgreeOnIsAsRank0HasIt) {
  RanksInThreads ranks({3});
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    const auto number = static_cast<std::size_t>(comm->rank());
    auto engine =
        Engine::start(*comm, {.fusion_bytes = number << 10, .cache_capacity = number, .fuses_groups = number == 1});
    ASSERT_TRUE(engine.ok()) << engine.status();
    for (int round = 0; round < 3; ++round) reduce_many(**engine, 4, 10);
    (*engine)->shut_down(kPatience);
  });
}

TEST(EngineSettingsTest, ACycleGathersWhatComesMeanwhile) {
  with_engines({2}, [](Engine& engine) { reduce_many(engine, 10, 5); }, {.cycle = milliseconds(5)});
}

TEST(EngineSettingsTest, TheAutotunerChangesNoResult) {
  with_engines({2},
               [](Engine& engine) {
                 for (int step = 0; step < 60; ++step) reduce_many(engine, 4, 1000);
               },
               {.autotune = {.is_on = true, .warmup_samples = 1, .steps_per_sample = 2, .most_samples = 10}});
}

TEST(EngineSettingsTest, ATimelineShowsWhoWasReadyAndWhatWasDone) {
  const std::string path = std::filesystem::temp_directory_path() / ("engine-" + std::to_string(getpid()) + ".json");
  with_engines({2},
               [](Engine& engine) {
                 for (int step = 0; step < 3; ++step) reduce_many(engine, 2, 10);
               },
               {.timeline = path, .marks_turns = true});
  const nlohmann::json events = nlohmann::json::parse(std::ifstream(path));
  std::filesystem::remove(path);
  std::map<int, std::string> tensors;
  std::map<std::string, std::map<std::string, int>> begun;
  std::map<std::string, std::multiset<std::string>> ready;
  std::map<int, int> depth;
  for (const auto& event : events) {
    const int tensor = event["pid"];
    if (event.value("name", "") == "process_name") tensors[tensor] = event["args"]["name"];
    if (event["ph"] == "B") ++begun[tensors[tensor]][event["name"]];
    if (event["ph"] == "X") ready[tensors[tensor]].insert(event["name"].get<std::string>());
    depth[tensor] += event["ph"] == "B" ? 1 : event["ph"] == "E" ? -1 : 0;
    EXPECT_GE(depth[tensor], 0);
  }
  EXPECT_EQ(begun["packed 0"]["NEGOTIATE_ALLREDUCE"], 3);
  EXPECT_EQ(begun["packed 0"]["ALLREDUCE"], 3);
  EXPECT_THAT(ready["packed 1"], ElementsAre("0", "0", "0", "1", "1", "1"));
  for (const auto& [tensor, left] : depth) EXPECT_EQ(left, 0) << tensors[tensor];
}

TEST(EngineSettingsTest, ATimelineCanBeginAndEndInTheMiddle) {
  const std::string path = std::filesystem::temp_directory_path() / ("middle-" + std::to_string(getpid()) + ".json");
  with_engines({2}, [&](Engine& engine) {
    reduce_many(engine, 1, 10);
    ASSERT_EQ(engine.set_timeline(path, false).message(), "");
    ASSERT_EQ(finish(engine.submit({.name = "all", .signature = {.kind = Kind::kBarrier}, .tensors = {}})).message(),
              "");
    ASSERT_EQ(engine.set_timeline("", false).message(), "");
    reduce_many(engine, 1, 10);
    if (engine.rank() == 0) {
      EXPECT_EQ(engine.set_timeline("/nonexistent/t.json", false).code(), base::Code::kInvalidArgument);
    }
  });
  const std::string text = nlohmann::json::parse(std::ifstream(path)).dump();
  std::filesystem::remove(path);
  EXPECT_THAT(text, HasSubstr("NEGOTIATE_BARRIER"));
}

// Rank 1 does nothing at all, and is found out all the same.
TEST(EngineSettingsTest, ATensorThatARankNeverSubmitsEndsTheEngineAfterTheShutdownTime) {
  std::barrier<> together(2);
  with_engines({2},
               [&](Engine& engine) {
                 if (engine.rank() == 0) {
                   std::vector<float> data(4, 1);
                   const base::Status status = finish(engine.submit(allreduce("lonely", data)));
                   EXPECT_THAT(status.message(), AllOf(HasSubstr("'lonely'"), HasSubstr("not submitted by rank 1 (")));
                 }
                 together.arrive_and_wait();
               },
               {.stall = {.warning = milliseconds(100), .shutdown = milliseconds(400), .is_reported = false}});
}

// As the formula says, in float64 throughout.
std::vector<double> adasum_of(std::vector<std::vector<double>> vectors) {
  while (vectors.size() > 1) {
    std::vector<std::vector<double>> next;
    for (std::size_t i = 0; i < vectors.size(); i += 2) {
      const auto& a = vectors[i];
      const auto& b = vectors[i + 1];
      double dot = 0;
      double a2 = 0;
      double b2 = 0;
      for (std::size_t k = 0; k < a.size(); ++k) {
        dot += a[k] * b[k];
        a2 += a[k] * a[k];
        b2 += b[k] * b[k];
      }
      next.emplace_back();
      for (std::size_t k = 0; k < a.size(); ++k) {
        next.back().push_back(a[k] * (a2 == 0 ? 1 : 1 - dot / (2 * a2)) + b[k] * (b2 == 0 ? 1 : 1 - dot / (2 * b2)));
      }
    }
    vectors = std::move(next);
  }
  return vectors.front();
}

TEST(AdasumTest, IsTheFormulaPairByPairOnEveryRank) {
  constexpr int kRanks = 4;
  std::vector<std::vector<double>> inputs(kRanks);
  std::mt19937 random(5);
  for (auto& input : inputs) {
    for (int k = 0; k < 100; ++k) input.push_back(static_cast<double>(random() % 2001) / 1000 - 1);
  }
  inputs[3].assign(100, 0);  // a vector without length adds nothing
  const std::vector<double> expected = adasum_of(inputs);
  with_engines({2, 2}, [&](Engine& engine) {
    std::vector<double> exact = inputs[static_cast<std::size_t>(engine.rank())];
    std::vector<float> rounded(exact.begin(), exact.end());
    Submission first = allreduce("exact", exact);
    first.signature.kind = Kind::kAdasum;
    Submission second = allreduce("rounded", rounded);
    second.signature.kind = Kind::kAdasum;
    ASSERT_EQ(finish(engine.submit(first)).message(), "");
    ASSERT_EQ(finish(engine.submit(second)).message(), "");
    for (std::size_t k = 0; k < exact.size(); ++k) {
      EXPECT_NEAR(exact[k], expected[k], 1e-12);
      EXPECT_NEAR(rounded[k], expected[k], 1e-5);
    }
  });
}

TEST(AdasumTest, SixteenBitFloatsAreComputedInThirtyTwo) {
  with_engines({2}, [](Engine& engine) {
    // 1.5 and -3 as float16 and bfloat16; orthogonal vectors are summed.
    std::vector<std::uint16_t> half =
        engine.rank() == 0 ? std::vector<std::uint16_t>{0x3e00, 0} : std::vector<std::uint16_t>{0, 0xc200};
    std::vector<std::uint16_t> brain =
        engine.rank() == 0 ? std::vector<std::uint16_t>{0x3fc0, 0} : std::vector<std::uint16_t>{0, 0xc040};
    for (const auto& [data, type] : {std::pair{&half, DType::kF16}, std::pair{&brain, DType::kBF16}}) {
      const Submission submission{.name = "short",
                                  .signature = {.kind = Kind::kAdasum, .tensors = {{type, {2}}}},
                                  .tensors = {{data->data(), data->data()}}};
      ASSERT_EQ(finish(engine.submit(submission)).message(), "");
    }
    EXPECT_THAT(half, ElementsAre(0x3e00, 0xc200));
    EXPECT_THAT(brain, ElementsAre(0x3fc0, 0xc040));
  });
}

TEST(AdasumTest, NeedsFloatsAndAPowerOfTwoOfRanks) {
  with_engines({3}, [](Engine& engine) {
    std::vector<float> data(4, 1);
    Submission submission = allreduce("adasum", data);
    submission.signature.kind = Kind::kAdasum;
    EXPECT_THAT(engine.submit(submission).status().message(), HasSubstr("a power of two of ranks, but there are 3"));
  });
  with_engines({1}, [](Engine& engine) {
    std::vector<std::int32_t> data(4, 1);
    Submission submission = allreduce("adasum", data);
    submission.signature.kind = Kind::kAdasum;
    EXPECT_EQ(engine.submit(submission).status().code(), base::Code::kInvalidArgument);
  });
}

}  // namespace
}  // namespace muster::collectives::engine_settings_test
