#include "launcherd/daemon/watch_streams.h"

#include <algorithm>
#include <utility>

#include "model/job_state.h"
#include "proto/stored_event.h"

namespace muster::launcherd::inline daemon {
namespace {

constexpr int kEventsOfAPage = 256;

}  // namespace

Gone WatchStreams::watch(const base::JobId& job, std::uint64_t from, Replies<v1::Event> replies) {
  const std::uint64_t number = next_++;
  const std::uint64_t after = std::max<std::uint64_t>(from, 1) - 1;
  watchers_.emplace(number, Watcher{.job = job, .after = after, .replies = std::move(replies)});
  by_job_.emplace(job, number);
  go_on(number);
  return gate_.wrap([this, number] { finish(number, base::ok_status()); });
}

void WatchStreams::changed(const base::JobId& job) {
  std::vector<std::uint64_t> numbers;
  const auto range = by_job_.equal_range(job);
  for (auto at = range.first; at != range.second; ++at) numbers.push_back(at->second);
  for (const std::uint64_t number : numbers) {
    watchers_.at(number).is_behind = true;
    go_on(number);
  }
}

// Reads the state before the events. So the events include everything that happened before the state was read.
base::Result<WatchStreams::Page> WatchStreams::read_page(StoreReader& reader, const base::JobId& job,
                                                         std::uint64_t after) {
  MUSTER_ASSIGN_OR_RETURN(const StoredJob stored, reader.job(job));
  Page page;
  MUSTER_ASSIGN_OR_RETURN(page.events, reader.events(job, after, kEventsOfAPage));
  const std::uint64_t last = page.events.empty() ? after : page.events.back().sequence;
  page.is_last = model::is_final(stored.state) && last >= stored.last_sequence;
  return page;
}

void WatchStreams::go_on(std::uint64_t number) {
  Watcher& watcher = watchers_.at(number);
  if (watcher.is_busy || !watcher.is_behind) return;
  watcher.is_busy = true;
  watcher.is_behind = false;
  store_->read<Page>(
      [job = watcher.job, after = watcher.after](StoreReader& reader) { return read_page(reader, job, after); },
      gate_.wrap([this, number](const base::Result<Page>& page) { got(number, page); }));
}

void WatchStreams::got(std::uint64_t number, const base::Result<Page>& page) {
  const auto found = watchers_.find(number);
  if (found == watchers_.end()) return;
  if (!page.ok()) {
    finish(number, page.status());
    return;
  }
  Watcher& watcher = found->second;
  for (const StoredEvent& stored : page->events) {
    auto event = proto::event_of_store(stored.message, stored.sequence);
    if (!event.ok()) {
      finish(number, event.status());
      return;
    }
    watcher.after = stored.sequence;
    watcher.replies.send(std::move(*event));
  }
  if (page->is_last) {
    finish(number, base::ok_status());
    return;
  }
  if (page->events.empty()) {
    watcher.is_busy = false;
    go_on(number);
    return;
  }
  watcher.is_behind = true;
  watcher.replies.when_written(gate_.wrap([this, number] {
    const auto again = watchers_.find(number);
    if (again == watchers_.end()) return;
    again->second.is_busy = false;
    go_on(number);
  }));
}

void WatchStreams::finish(std::uint64_t number, const base::Status& status) {
  const auto found = watchers_.find(number);
  if (found == watchers_.end()) return;
  const Watcher watcher = std::move(found->second);
  watchers_.erase(found);
  const auto range = by_job_.equal_range(watcher.job);
  for (auto at = range.first; at != range.second; ++at) {
    if (at->second != number) continue;
    by_job_.erase(at);
    break;
  }
  watcher.replies.done(status);
}

}  // namespace muster::launcherd::daemon
