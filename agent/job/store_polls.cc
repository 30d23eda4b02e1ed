#include "agent/job/store_polls.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "agent/proc/process_sockets.h"
#include "base/shortened.h"
#include "base/strings.h"
#include "rendezvous/local_owner.h"

namespace muster::agent::inline job {
namespace {

constexpr std::size_t kShownPolledKey = 100;  // bytes
// Each match takes up to a millisecond for each rank.
constexpr int kMatchesOfRank = 4;
constexpr int kMostMatches = 256;

std::optional<std::uint64_t> socket_at(const rendezvous::ConnectionEnds& ends) {
  const auto socket = rendezvous::local_socket(ends);
  if (!socket.ok()) return std::nullopt;
  return socket->inode;
}

}  // namespace

StorePolls::StorePolls(Watch watch) : StorePolls(std::move(watch), socket_at, has_socket) {}

StorePolls::StorePolls(Watch watch, SocketOf socket_of, HasSocket has_socket)
    : watch_(std::move(watch)), socket_of_(std::move(socket_of)), has_socket_(std::move(has_socket)) {}

std::shared_ptr<void> StorePolls::begin(std::map<int, pid_t> processes) {
  processes_ = std::move(processes);
  began_ = base::monotonic_now();
  matches_left_ = std::min(kMostMatches, kMatchesOfRank * static_cast<int>(processes_.size()));
  if (++watches_ == 1 && watch_) {
    watch_([this](const rendezvous::ConnectionEnds& ends, std::string_view scope, std::string_view key) {
      missing(ends, scope, key);
    });
  }
  return {nullptr, [this](void*) {
            if (--watches_ == 0 && watch_) watch_({});
          }};
}

void StorePolls::missing(const rendezvous::ConnectionEnds& ends, std::string_view scope, std::string_view key) {
  if (matches_left_ == 0) return;
  --matches_left_;
  const auto socket = socket_of_(ends);
  if (!socket) return;
  for (const auto& [rank, pid] : processes_) {
    if (has_socket_(pid, *socket)) return note(rank, fmt::format("{}/{}", scope, key));
  }
}

void StorePolls::note(int rank, std::string key) {
  const base::MonotonicTime now = base::monotonic_now();
  const auto known = polls_.find(rank);
  if (known != polls_.end() && known->second.key == key) {
    known->second.last = now;
    return;
  }
  if (known != polls_.end() && known->second.last >= began_ && known->second.key < key) return;
  polls_.insert_or_assign(rank, Poll{.key = std::move(key), .since = now, .last = now});
}

std::optional<Awaited> StorePolls::awaited(int rank, base::MonotonicTime begin) const {
  const auto found = polls_.find(rank);
  if (found == polls_.end() || found->second.last < begin) return std::nullopt;
  const std::string key = base::shortened(base::printable(found->second.key), kShownPolledKey);
  return Awaited{.what = fmt::format("the key \"{}\" in Horovod's store", key), .since = found->second.since};
}

void StorePolls::keep_only(const std::map<int, pid_t>& ranks) {
  std::erase_if(polls_, [&](const auto& poll) { return !ranks.contains(poll.first); });
}

}  // namespace muster::agent::job
