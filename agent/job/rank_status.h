// Reads the status pages (base/rank_page.h) on which libmuster says where the ranks of this host are in their
// operations.
//
// Security: the pages are written by the job's processes, so nothing in them is trusted. The reader follows no link,
// waits for nothing and reads a fixed number of bytes. A page that changes meanwhile loses the values that changed.
//
// Thread: any.
//
//   if (const auto place = collective_place_of(session.session_dir(), rank)) *evidence.mutable_collective() = *place;
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rank_page.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::agent::inline job {

struct RankArrival {
  base::SampleKind kind = base::SampleKind::kCollective;
  std::uint64_t number = 0;  // without the bits of the kind
  std::int64_t ns = 0;       // CLOCK_MONOTONIC
  auto operator<=>(const RankArrival&) const = default;
};

// One process's page.
struct RankStatus {
  int rank = 0;         // of the job
  int world_rank = -1;  // -1 if there is no world
  int size = 0;         // of the world; 0 if there is none
  int world = 0;        // as RankPage.world
  std::uint64_t begun = 0;
  std::uint64_t ended = 0;
  std::uint64_t beats = 0;
  std::string operation = {};  // both are UTF-8; empty if unknown
  std::string name = {};
  std::int64_t since_ns = 0;               // when the operation began, or the last one ended
  std::vector<RankArrival> arrivals = {};  // ascending by kind and number; none is later than `now`
};

// `first` and `second` are two copies of one page, read one after the other. nullopt if they are not a page. Pure.
std::optional<RankStatus> parse_rank_page(std::span<const std::byte> first, std::span<const std::byte> second,
                                          base::MonotonicTime now);

// Returns the pages of living processes, at most 4096. Removes those of processes that have ended.
std::vector<RankStatus> read_rank_statuses(const std::string& session_directory);
// Returns that of one rank. If several of its processes have one: that of a process in a world, and of these the
// newest.
std::optional<RankStatus> find_rank_status(std::vector<RankStatus> statuses, int rank);

v1::CollectivePlace collective_place(const RankStatus& status, base::MonotonicTime now);
// Reads where a rank is. Without a world `size` is 0, and only `beats` and `since_ms` count. nullopt if no process of
// the rank has used libmuster.
std::optional<v1::CollectivePlace> collective_place_of(const std::string& session_directory, int rank);

}  // namespace muster::agent::job
