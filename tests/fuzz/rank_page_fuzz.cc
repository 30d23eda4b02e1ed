// Two copies of a status page, from anybody: the reader stays in their bytes, and what it returns keeps its promises.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "agent/job/rank_status.h"
#include "base/strings.h"

namespace {

using namespace muster;

void check(const agent::RankStatus& status, std::int64_t now) {
  if (status.rank < 0 || status.size < 0 || status.world_rank >= status.size || status.world < 0) std::abort();
  if (status.ended > status.begun || status.since_ns < 0 || status.since_ns > now) std::abort();
  if (!base::is_utf8(status.operation) || !base::is_utf8(status.name)) std::abort();
  if (status.arrivals.size() > base::kRankPageSamples) std::abort();
  for (const agent::RankArrival& arrival : status.arrivals) {
    if (arrival.ns <= 0 || arrival.ns > now) std::abort();
  }
}

}  // namespace

// The input lies over a sound page; what follows the size of a page lies over the second copy.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::int64_t kNow = 1'000'000'000'000;
  const base::MonotonicTime now{std::chrono::nanoseconds(kNow)};
  std::vector<std::byte> first(sizeof(base::RankPage));
  std::memcpy(first.data(), &base::kRankPageMagic, sizeof base::kRankPageMagic);
  const std::size_t head = std::min(size, first.size());
  if (head != 0) std::memcpy(first.data(), data, head);
  std::vector<std::byte> second = first;
  const std::size_t rest = std::min(size - head, second.size());
  if (rest != 0) std::memcpy(second.data(), data + head, rest);
  if (const auto status = agent::parse_rank_page(first, second, now)) {
    check(*status, kNow);
    if (!base::is_utf8(agent::collective_place(*status, now).name())) std::abort();
  }
  if (agent::parse_rank_page(std::span(first).first(head), second, now) && head != first.size()) std::abort();
  return 0;
}
