#include "collectives/algorithm/link_speed.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "collectives/algorithm/allreduce.h"
#include "collectives/algorithm/slices.h"

namespace muster::collectives::inline algorithm {
namespace {

constexpr int kTimes = 8;
constexpr int kLargeTimes = 3;
constexpr std::size_t kSmallBytes = 8;
constexpr std::size_t kLargeBytes = 128 << 10;
constexpr int kMostNeighbours = 4;
constexpr double kShortest = 0.1;  // differences of two measurements below this count as this

class Swaps {
 public:
  explicit Swaps(Exchange& exchange)
      : exchange_(exchange), sent_(kLargeBytes), call_{.sequence = 0, .call = {.op = Op::kBarrier}} {}

  // Returns the time of the shortest of `times` exchanges, in microseconds. This rank sends `bytes` to each of its next
  // `neighbours` ranks, and receives as many from those before it.
  base::Result<double> shortest(int times, int neighbours, std::size_t bytes) {
    double best = std::numeric_limits<double>::max();
    for (int i = 0; i < times; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      MUSTER_RETURN_IF_ERROR(swap(neighbours, bytes));
      best =
          std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    }
    return best;
  }

 private:
  base::Status swap(int neighbours, std::size_t bytes) {
    const int size = exchange_.size();
    const std::span<std::byte> place = exchange_.scratch(static_cast<std::size_t>(neighbours) * bytes);
    exchange_.begin(call_, Algorithm::kRing);
    // Receive first, so that no rank has to wait. If no connection exists yet, the higher rank connects.
    for (int i = 0; i < neighbours; ++i) {
      const int left = (exchange_.rank() + size - 1 - i) % size;
      MUSTER_RETURN_IF_ERROR(exchange_.receive(left, place.subspan(static_cast<std::size_t>(i) * bytes, bytes)));
    }
    for (int i = 0; i < neighbours; ++i) {
      MUSTER_RETURN_IF_ERROR(exchange_.send((exchange_.rank() + 1 + i) % size, std::span(sent_).first(bytes)));
    }
    return exchange_.run();
  }

  Exchange& exchange_;
  const std::vector<std::byte> sent_;
  const Operation call_;
};

}  // namespace

base::Result<LinkSpeed> measure_links(Exchange& exchange) {
  if (exchange.size() == 1) return LinkSpeed{};
  const int neighbours = std::min(kMostNeighbours, exchange.size() - 1);
  Swaps swaps(exchange);
  MUSTER_ASSIGN_OR_RETURN(const double one, swaps.shortest(kTimes, 1, kSmallBytes));
  MUSTER_ASSIGN_OR_RETURN(const double several, swaps.shortest(kTimes, neighbours, kSmallBytes));
  MUSTER_ASSIGN_OR_RETURN(const double large, swaps.shortest(kLargeTimes, 1, kLargeBytes));
  const double further = neighbours == 1 ? 0 : std::max(0.0, several - one) / (neighbours - 1);
  std::array<double, 3> slowest{one, further, std::max(kShortest, large - one)};
  const ReduceTask task{.type = DType::kF64,
                        .op = RedOp::kMax,
                        .scale = {},
                        .input = slowest.data(),
                        .output = slowest.data(),
                        .count = slowest.size()};
  const Operation agreement{.sequence = 0,
                            .call = {.count = slowest.size(), .op = Op::kAllreduce, .type = DType::kF64}};
  MUSTER_RETURN_IF_ERROR(recursive_doubling_allreduce(exchange, agreement, task));
  return LinkSpeed{.latency_us = slowest[0],
                   .message_us = slowest[1],
                   .bytes_per_us = static_cast<double>(kLargeBytes) / slowest[2]};
}

}  // namespace muster::collectives::algorithm
