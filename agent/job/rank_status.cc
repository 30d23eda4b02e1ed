// Reads status pages. Read read_rank_statuses() first, then read_page(), then parse_rank_page().
#include "agent/job/rank_status.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/directory.h"
#include "base/strings.h"
#include "base/unique_fd.h"

namespace muster::agent::inline job {
namespace {

constexpr std::size_t kMostPages = 4096;
constexpr int kHighestRank = 1 << 24;
constexpr std::int64_t kNanosPerMilli = 1'000'000;
constexpr std::uint64_t kNumbers = (std::uint64_t{1} << base::kSampleKindShift) - 1;

using PageBytes = std::array<std::byte, sizeof(base::RankPage)>;

std::int64_t ns_of(base::MonotonicTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

template <std::size_t kSize>
std::string text_of(const char (&room)[kSize]) {
  return base::printable(base::valid_utf8(std::string_view(room, strnlen(room, kSize))));
}

base::RankPage page_of(std::span<const std::byte> bytes) {
  base::RankPage page{};
  std::memcpy(&page, bytes.data(), sizeof page);
  return page;
}

bool has_sound_world(const base::RankPage& page) {
  if (page.job_rank < 0 || page.job_rank >= kHighestRank || page.world < 0) return false;
  if (page.size == 0) return page.world_rank == -1;
  return page.size > 0 && page.size <= kHighestRank && page.world_rank >= 0 && page.world_rank < page.size;
}

// Numbers that are too large for their sum are no numbers of operations.
void add_counters(const base::RankPage& page, RankStatus& status) {
  const auto sound = [](std::uint64_t number) { return std::min(number, kNumbers); };
  status.begun = sound(page.begun) + sound(page.world_begun);
  status.ended = std::min(status.begun, sound(page.ended) + sound(page.world_ended));
}

// The process writes a sample's number last, and clears it before it writes another time.
std::vector<RankArrival> arrivals_of(const base::RankPage& first, const base::RankPage& second, std::int64_t now) {
  std::vector<RankArrival> arrivals;
  for (int i = 0; i < base::kRankPageSamples; ++i) {
    const base::RankPageSample& one = first.samples[i];
    const base::RankPageSample& other = second.samples[i];
    const std::uint64_t kind = one.number >> base::kSampleKindShift;
    const bool is_same = one.number == other.number && one.ns == other.ns;
    if (!is_same || one.number == 0 || kind > static_cast<std::uint64_t>(base::SampleKind::kHeartbeat)) continue;
    if (one.ns <= 0 || one.ns > now) continue;
    arrivals.push_back({static_cast<base::SampleKind>(kind), one.number & kNumbers, one.ns});
  }
  std::ranges::sort(arrivals);
  return arrivals;
}

// The agent can lock the file only if the process that has made it, and whoever has inherited its lock, are gone.
bool is_of_dead_process(int file) {
  if (flock(file, LOCK_EX | LOCK_NB) != 0) return false;
  flock(file, LOCK_UN);
  return true;
}

std::optional<RankStatus> read_page(int directory, const std::string& name) {
  const base::UniqueFd file(openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat about {};
  if (!file.valid() || fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  if (is_of_dead_process(file.get())) {
    unlinkat(directory, name.c_str(), 0);
    return std::nullopt;
  }
  PageBytes first{};
  PageBytes second{};
  for (PageBytes* const copy : {&first, &second}) {
    const ssize_t bytes = pread(file.get(), copy->data(), copy->size(), 0);
    if (bytes != static_cast<ssize_t>(copy->size())) return std::nullopt;
  }
  return parse_rank_page(first, second, base::monotonic_now());
}

}  // namespace

std::optional<RankStatus> parse_rank_page(std::span<const std::byte> first, std::span<const std::byte> second,
                                          base::MonotonicTime now) {
  if (first.size() != sizeof(base::RankPage) || second.size() != sizeof(base::RankPage)) return std::nullopt;
  const base::RankPage before = page_of(first);
  const base::RankPage page = page_of(second);
  if (before.magic != base::kRankPageMagic || page.magic != base::kRankPageMagic) return std::nullopt;
  if (!has_sound_world(page)) return std::nullopt;
  const std::int64_t now_ns = ns_of(now);
  RankStatus status{.rank = page.job_rank,
                    .world_rank = page.world_rank,
                    .size = page.size,
                    .world = page.world,
                    .beats = page.beats};
  add_counters(page, status);
  const bool is_in_world = page.world_begun > page.world_ended;
  const bool is_in_other = page.begun > page.ended;
  status.since_ns = std::clamp<std::int64_t>(std::max(page.ended_ns, page.world_began_ns), 0, now_ns);
  status.arrivals = arrivals_of(before, page, now_ns);
  if (is_in_world || (!is_in_other && page.world_began_ns > page.ended_ns)) {
    if (before.world_begun != page.world_begun) return status;
    status.operation = text_of(page.world_operation);
    if (is_in_world) status.since_ns = std::clamp<std::int64_t>(page.world_began_ns, 0, now_ns);
    return status;
  }
  if (before.sequence != page.sequence || page.sequence % 2 != 0) return status;
  status.operation = text_of(page.operation);
  status.name = text_of(page.name);
  if (is_in_other) status.since_ns = std::clamp<std::int64_t>(page.began_ns, 0, now_ns);
  return status;
}

std::vector<RankStatus> read_rank_statuses(const std::string& session_directory) {
  std::vector<RankStatus> statuses;
  const base::UniqueFd directory(open(session_directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory.valid()) return statuses;
  std::size_t seen = 0;
  for (const std::string& name : base::entries_of(session_directory)) {
    if (!name.starts_with(base::kRankPagePrefix)) continue;
    if (++seen > kMostPages) break;
    if (auto status = read_page(directory.get(), name)) statuses.push_back(std::move(*status));
  }
  return statuses;
}

std::optional<RankStatus> find_rank_status(std::vector<RankStatus> statuses, int rank) {
  std::erase_if(statuses, [rank](const RankStatus& status) { return status.rank != rank; });
  const auto best = std::ranges::max_element(
      statuses, {}, [](const RankStatus& status) { return std::pair(status.size > 0, status.since_ns); });
  if (best == statuses.end()) return std::nullopt;
  return *best;
}

v1::CollectivePlace collective_place(const RankStatus& status, base::MonotonicTime now) {
  v1::CollectivePlace place;
  place.set_size(status.size);
  place.set_begun(status.begun);
  place.set_ended(status.ended);
  place.set_operation(status.operation);
  place.set_name(status.name);
  place.set_since_ms((ns_of(now) - status.since_ns) / kNanosPerMilli);
  place.set_beats(status.beats);
  return place;
}

std::optional<v1::CollectivePlace> collective_place_of(const std::string& session_directory, int rank) {
  const auto status = find_rank_status(read_rank_statuses(session_directory), rank);
  if (!status) return std::nullopt;
  return collective_place(*status, base::monotonic_now());
}

}  // namespace muster::agent::job
