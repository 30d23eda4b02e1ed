// Ranks that are threads of the test, each with an engine, and submissions to it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "collectives/engine/engine.h"
#include "tests/unit/collectives/support/ranks_in_threads.h"

namespace muster::collectives {

constexpr std::chrono::seconds kPatience{60};

using EngineBody = std::function<void(Engine&)>;

inline void with_engines(std::vector<int> hosts, const EngineBody& body, const EngineSettings& settings = {}) {
  RanksInThreads ranks(std::move(hosts));
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    auto engine = Engine::start(*comm, settings);
    ASSERT_TRUE(engine.ok()) << engine.status();
    body(**engine);
    (*engine)->shut_down(kPatience);
  });
}

template <typename T>
constexpr DType type_of() {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  return DType::kI32;
}

template <typename T>
Submission allreduce(const std::string& name, std::vector<T>& data, RedOp op = RedOp::kSum) {
  return {.name = name,
          .signature = {.kind = Kind::kAllreduce,
                        .op = op,
                        .tensors = {{type_of<T>(), {static_cast<std::int64_t>(data.size())}}}},
          .tensors = {{data.data(), data.data()}}};
}

template <typename T>
Submission of_rows(Kind kind, const std::string& name, const std::vector<T>& data, std::int64_t row) {
  const auto rows = static_cast<std::int64_t>(data.size()) / row;
  return {.name = name,
          .signature = {.kind = kind, .tensors = {{type_of<T>(), {rows, row}}}},
          .tensors = {{data.data(), nullptr}}};
}

inline base::Status finish(const base::Result<std::shared_ptr<Ticket>>& ticket) {
  if (!ticket.ok()) return ticket.status();
  return (*ticket)->wait_for(kPatience).value_or(base::Status(base::Code::kDeadlineExceeded, "not done"));
}

// Sums each vector over the ranks, all at once, submitted in an order that each rank draws for itself.
inline void reduce_in_any_order(Engine& engine, std::vector<std::vector<float>>& data, std::mt19937& random) {
  std::vector<std::size_t> order(data.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (const std::size_t i : order) {
    auto ticket = engine.submit(allreduce("tensor " + std::to_string(i), data[i]));
    ASSERT_TRUE(ticket.ok()) << ticket.status();
    tickets.push_back(*ticket);
  }
  for (const auto& ticket : tickets) ASSERT_EQ(finish(ticket).message(), "");
}

template <typename T>
std::vector<T> values_of(const Output& output) {
  const T* const data = reinterpret_cast<const T*>(output.data.get());
  return {data, data + output.spec.elements()};
}

}  // namespace muster::collectives
