#include "launcherd/run/input_feed.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "proto/input_window.h"

namespace muster::launcherd::inline run {

InputFeed::InputFeed(const std::vector<int>& ranks, InputSource* source, Send send)
    : source_(source), send_(std::move(send)) {
  for (const int rank : ranks) readers_[rank];
  if (source_ != nullptr) source_->prepare();
}

InputFeed::~InputFeed() {
  close();
}

std::size_t InputFeed::room() const {
  if (!is_started_ || is_ended_ || readers_.empty()) return 0;
  std::size_t most = 0;
  for (const auto& [rank, reader] : readers_) most = std::max(most, reader.waiting);
  return proto::kInputWindow - most;
}

std::vector<int> InputFeed::readers() const {
  std::vector<int> ranks;
  for (const auto& [rank, reader] : readers_) ranks.push_back(rank);
  return ranks;
}

void InputFeed::give(std::string_view bytes) {
  MUSTER_CHECK(bytes.size() <= room());
  for (auto& [rank, reader] : readers_) reader.waiting += bytes.size();
  const std::vector<int> ranks = readers();
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, proto::kInputPiece);
    send_(ranks, piece, false);
    bytes.remove_prefix(piece.size());
  }
}

void InputFeed::end() {
  if (!is_started_ || std::exchange(is_ended_, true) || readers_.empty()) return;
  send_(readers(), {}, true);
}

void InputFeed::started(int rank) {
  const auto found = readers_.find(rank);
  if (found == readers_.end()) return;
  found->second.is_started = true;
  settle(false);
}

void InputFeed::taken(int rank, std::size_t bytes, bool closed) {
  const auto found = readers_.find(rank);
  if (found == readers_.end()) return;
  const bool had_room = room() > 0;
  found->second.waiting -= std::min(found->second.waiting, bytes);
  if (closed) readers_.erase(found);
  settle(had_room);
}

void InputFeed::rank_over(int rank) {
  const bool had_room = room() > 0;
  if (readers_.erase(rank) > 0) settle(had_room);
}

void InputFeed::close() {
  readers_.clear();
  if (std::exchange(is_closed_, true)) return;
  if (source_ != nullptr) source_->stop();
}

void InputFeed::settle(bool had_room) {
  if (is_closed_) return;
  if (readers_.empty()) return close();
  if (!is_started_) {
    if (!std::ranges::all_of(readers_, [](const auto& entry) { return entry.second.is_started; })) return;
    is_started_ = true;
    source_ != nullptr ? source_->start(*this) : end();
  } else if (!had_room && room() > 0 && source_ != nullptr) {
    source_->has_room();
  }
}

}  // namespace muster::launcherd::run
