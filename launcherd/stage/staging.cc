// The whole of Staging.
// Read it in this order: next_path, scanned, answered, count_down, choose_places, pump, send_piece, finish_copy.
// Then read begin_broadcast, broadcast_began and spread, the way of large files.
#include "launcherd/stage/staging.h"

#include <algorithm>
#include <utility>

#include "base/ids.h"
#include "base/strings.h"
#include "launcherd/stage/byte_count.h"
#include "proto/stage_window.h"

namespace muster::launcherd::inline stage {

Staging::Staging(base::Loop& loop, std::vector<model::StagedPath> paths, const std::vector<Host>& hosts,
                 std::string token, const std::string& never_staged, Events events, StagingLimits limits,
                 std::string environment)
    : loop_(loop),
      paths_(std::move(paths)),
      token_(std::move(token)),
      events_(std::move(events)),
      limits_(limits),
      environment_(std::move(environment)),
      source_(loop, never_staged) {
  for (const Host& host : hosts) {
    place_of_[host.agent] = places_.size();
    places_.emplace_back().host = host;
  }
  // Begin at a random number, so that late answers to an earlier launcherd's orders do not match.
  std::uint32_t start = 0;
  base::random_bytes(&start, sizeof start);
  next_id_ = (std::uint64_t{start} << 16U) + 1;
}

std::string Staging::mark_of(std::size_t index) const {
  return fmt::format("{}{}.{}", kStageMark, token_, index);
}

std::string Staging::source_path(int entry) const {
  return tree_.is_folder ? tree_.root + "/" + tree_.entries[static_cast<std::size_t>(entry)].path() : file_path_;
}

StageSource::Stamp Staging::source_stamp(int entry) const {
  const auto index = static_cast<std::size_t>(entry);
  return {
      .inode = tree_.inodes[index], .size = tree_.entries[index].size(), .mtime_ns = tree_.entries[index].mtime_ns()};
}

std::string Staging::shown_source() const {
  if (is_environment()) return fmt::format("the archive of {}", base::printable(environment_));
  return base::printable(paths_[path_ - 1].source);
}

std::string Staging::shown_target() const {
  return is_environment() ? "the folder of environments" : base::printable(directory_);
}

StageSource::Link Staging::source_link() const {
  return tree_.is_folder ? StageSource::Link::kRefuse : StageSource::Link::kFollow;
}

void Staging::next_path() {
  if (path_ == paths_.size()) {
    phase_ = Phase::kOver;
    progress_.cancel();
    events_.done(base::ok_status());
    return;
  }
  phase_ = Phase::kScan;
  source_.scan(paths_[path_++].source, [this](base::Result<StageTree> tree) { scanned(std::move(tree)); });
}

void Staging::scanned(base::Result<StageTree> tree) {
  if (!tree.ok()) {
    fail(tree.status());
    return;
  }
  tree_ = *std::move(tree);
  digests_.clear();
  sent_.clear();
  sent_bytes_ = 0;
  std::string name;
  directory_ = stage_directory(paths_[path_ - 1].destination, tree_, name);
  if (!tree_.is_folder) {
    file_path_ = tree_.root + "/" + tree_.entries.front().path();
    is_own_name_ = name == tree_.entries.front().path();
    tree_.entries.front().set_path(name);
  }
  for (Place& place : places_) place = Place{.host = place.host};
  to_agents_ = 0;
  no_room_.clear();
  broadcast_.reset();
  broadcast_places_.clear();
  progress_ = loop_.every(limits_.period, [this] {
    report_progress();
    check_silence();
  });
  ask_all(Phase::kOpen, [this](v1::StageOrder& order, std::size_t index) {
    if (is_environment()) {
      order.mutable_open()->set_environments(true);
    } else {
      order.mutable_open()->set_directory(directory_);
    }
    order.mutable_open()->set_mark(mark_of(index));
  });
}

void Staging::ask_all(Phase phase, const std::function<void(v1::StageOrder&, std::size_t)>& fill) {
  phase_ = phase;
  waiting_ = places_.size();
  for (std::size_t i = 0; i < places_.size(); ++i) {
    v1::StageOrder asked;
    fill(asked, i);
    // The host answers the last order when all these bytes are on its disk.
    order(places_[i], std::move(asked), 0, sent_bytes_);
  }
}

void Staging::order(Place& place, v1::StageOrder order, std::size_t bytes, std::uint64_t moving) {
  order.set_id(next_id_++);
  if (place.unanswered.empty()) place.silent = {};
  place.unanswered.push_back({.id = order.id(), .bytes = bytes, .moving = moving});
  place.in_flight += bytes;
  v1::LauncherMessage message;
  *message.mutable_stage_order() = std::move(order);
  events_.send(place.host.agent, std::move(message));
}

void Staging::answered(int agent, const v1::StageAnswer& answer) {
  const auto found = place_of_.find(agent);
  if (phase_ == Phase::kOver || found == place_of_.end()) return;
  const std::size_t index = found->second;
  Place& place = places_[index];
  if (answer.id() == 0) {
    // Ignore reports to an earlier broadcast.
    const bool is_report =
        phase_ == Phase::kSpread && place.gets_files && broadcast_->report(place.in_broadcast, answer);
    if (!is_report || phase_ != Phase::kSpread) return;
    place.silent = {};
  }
  if (!answer.error().empty()) {
    fail(base::failed_precondition("{}: {}: {}", place.host.name, option(), base::printable(answer.error())));
    return;
  }
  if (answer.id() == 0) return pump(index);
  // Ignore answers to orders of an earlier launcherd.
  if (place.unanswered.empty() || place.unanswered.front().id != answer.id()) return;
  place.silent = {};
  place.in_flight -= place.unanswered.front().bytes;
  to_agents_ -= place.unanswered.front().bytes;
  const bool is_data = place.unanswered.front().bytes > 0;
  place.unanswered.pop_front();
  if (phase_ == Phase::kMarks) {
    place.first_seen = index;
    const auto sees = [&](std::size_t i) {
      return std::ranges::find(answer.marks(), mark_of(i)) != answer.marks().end();
    };
    // If the folder is read-only on a host, that host has no mark of its own. Such a host may see the mark of a later
    // host.
    const std::size_t end = sees(index) ? index : places_.size();
    for (std::size_t i = 0; i < end; ++i) {
      if (!sees(i)) continue;
      place.first_seen = i;
      break;
    }
  }
  if (phase_ == Phase::kBegin) return broadcast_began(place, answer);
  if (!is_copying()) return count_down();
  if (phase_ == Phase::kSpread && !is_data && place.gets_files) broadcast_->answered(place.in_broadcast);
  answered_in_copy(index, answer);
}

void Staging::answered_in_copy(std::size_t index, const v1::StageAnswer& answer) {
  Place& place = places_[index];
  for (const v1::StageNeed& need : answer.needs()) {
    const bool is_known = need.entry() >= 0 && static_cast<std::size_t>(need.entry()) < tree_.entries.size();
    if (!is_known) continue;
    if (phase_ == Phase::kCompare) {
      broadcast_->add_want(place.in_broadcast, need.entry());
    } else {
      const std::uint64_t size = tree_.entries[static_cast<std::size_t>(need.entry())].size();
      place.wants.push_back({.entry = need.entry(), .digest = need.digest(), .end = size});
    }
  }
  pump(index);
  pump_waiting();
}

// Continues with places that waited for room, each as far as the room allows now.
void Staging::pump_waiting() {
  while (!no_room_.empty() && to_agents_ < proto::kStageWindows && is_copying()) {
    const std::size_t index = no_room_.front();
    no_room_.pop_front();
    places_[index].waits_for_room = false;
    pump(index);
  }
}

void Staging::count_down() {
  if (--waiting_ > 0) return;
  if (phase_ == Phase::kOpen) {
    ask_all(Phase::kMarks, [this](v1::StageOrder& order, std::size_t) {
      order.mutable_marks()->set_prefix(fmt::format("{}{}.", kStageMark, token_));
    });
  } else if (phase_ == Phase::kMarks) {
    source_.names(tree_.root, fmt::format("{}{}.", kStageMark, token_),
                  [this](const std::vector<std::string>& names) { choose_places(names); });
  } else {
    next_path();
  }
}

void Staging::choose_places(const std::vector<std::string>& at_source) {
  std::size_t copies = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const bool is_source =
        (tree_.is_folder || is_own_name_) && std::ranges::find(at_source, mark_of(i)) != at_source.end();
    places_[i].gets_files = places_[i].first_seen == i && !is_source;
    if (places_[i].gets_files) ++copies;
  }
  if (copies >= limits_.broadcast_hosts && tree_.bytes >= limits_.broadcast_bytes) return begin_broadcast();
  phase_ = Phase::kCopy;
  for (std::size_t i = 0; i < places_.size() && phase_ == Phase::kCopy; ++i) {
    if (places_[i].gets_files) pump(i);
  }
  finish_copy();
}

void Staging::begin_broadcast() {
  phase_ = Phase::kBegin;
  broadcast_ = std::make_unique<Broadcast>(tree_, broadcast_events());
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    if (!place.gets_files) continue;
    place.in_broadcast = broadcast_->add_host(place.host.name, place.host.address);
    broadcast_places_.push_back(i);
    v1::StageOrder begin;
    begin.set_broadcast(broadcast_->begin().SerializeAsString());
    order(place, std::move(begin));
  }
  waiting_ = broadcast_places_.size();
}

Broadcast::Events Staging::broadcast_events() {
  return {.order =
              [this](std::size_t host, const v1::StageBroadcast& broadcast) {
                v1::StageOrder wrapped;
                wrapped.set_broadcast(broadcast.SerializeAsString());
                order(places_[broadcast_places_[host]], std::move(wrapped));
              },
          .hash =
              [this](int entry, std::uint64_t offset, std::size_t size,
                     const std::function<void(base::Result<std::string>)>& done) {
                source_.hashes(source_path(entry), source_link(), source_stamp(entry), offset, size,
                               Broadcast::kBlockBytes, [this, done](const base::Result<std::string>& hashes) {
                                 if (phase_ == Phase::kSpread) done(hashes);
                               });
              },
          .want =
              [this](std::size_t host, int entry, std::uint64_t begin, std::uint64_t end) {
                places_[broadcast_places_[host]].wants.push_back({.entry = entry, .begin = begin, .end = end});
              },
          .note = events_.note,
          .fail = [this](base::Status why) { fail(std::move(why)); }};
}

void Staging::broadcast_began(Place& place, const v1::StageAnswer& answer) {
  broadcast_->began(place.in_broadcast, answer.broadcast());
  if (--waiting_ > 0) return;
  phase_ = Phase::kCompare;
  for (const std::size_t index : broadcast_places_) pump(index);
}

// All hosts have compared their files with the list.
void Staging::spread() {
  phase_ = Phase::kSpread;
  broadcast_->start();
}

// Sends lists of entries. It sends two ahead, so that the next one arrives while the host works on one.
void Staging::send_entries(Place& place) {
  constexpr std::size_t kListsAhead = 2;
  while (place.next_entry < tree_.entries.size() && place.unanswered.size() < kListsAhead) {
    v1::StageOrder list;
    std::uint64_t listed = 0;  // bytes of the listed files; the host reads them if it has such files
    for (int i = 0; i < proto::kStageEntries && place.next_entry < tree_.entries.size(); ++i) {
      listed += tree_.entries[place.next_entry].size();
      *list.mutable_entries()->add_entries() = tree_.entries[place.next_entry++];
    }
    order(place, std::move(list), 0, listed);
  }
}

bool Staging::is_complete(const Place& place) const {
  const bool has_all = phase_ != Phase::kSpread || !place.gets_files || broadcast_->is_complete(place.in_broadcast);
  return !place.gets_files || (has_all && place.next_entry == tree_.entries.size() && place.unanswered.empty() &&
                               place.wants.empty() && place.writing < 0 && !place.is_reading);
}

void Staging::pump(std::size_t index) {
  Place& place = places_[index];
  send_entries(place);
  if (place.is_reading || !is_copying()) return;
  if (place.writing < 0 && !begin_next_want(index)) {
    if (!place.is_reading) finish_copy();
    return;
  }
  if (place.in_flight >= proto::kStageWindow) return;
  if (to_agents_ < proto::kStageWindows) {
    send_piece(index);
  } else if (!place.waits_for_room) {
    place.waits_for_room = true;
    no_room_.push_back(index);
  }
}

// Returns true if the place has a file to send. Returns false if it has none, or if the decision needs the digest of
// the source's file first.
bool Staging::begin_next_want(std::size_t index) {
  Place& place = places_[index];
  while (!place.wants.empty()) {
    const Want want = place.wants.front();
    if (want.digest.empty()) {
      place.wants.pop_front();
      place.writing = want.entry;
      place.offset = want.begin;
      place.end = want.end;
      if (phase_ == Phase::kSpread) broadcast_->sent(place.in_broadcast);
      return true;
    }
    const auto known = digests_.find(want.entry);
    if (known == digests_.end()) {
      place.is_reading = true;
      source_.digest(source_path(want.entry), source_link(),
                     [this, index, entry = want.entry](base::Result<std::string> digest) {
                       if (phase_ == Phase::kOver) return;
                       if (!digest.ok()) {
                         fail(digest.status());
                         return;
                       }
                       digests_[entry] = *digest;
                       places_[index].is_reading = false;
                       pump(index);
                     });
      return false;
    }
    if (known->second != want.digest) {
      place.wants.front().digest.clear();
      continue;
    }
    place.wants.pop_front();
    v1::StageOrder keep;
    keep.mutable_keep()->add_entries(want.entry);
    order(place, std::move(keep));
  }
  return false;
}

void Staging::send_piece(std::size_t index) {
  Place& place = places_[index];
  const std::uint64_t size = tree_.entries[static_cast<std::size_t>(place.writing)].size();
  const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(proto::kStagePiece, place.end - place.offset));
  place.is_reading = true;
  to_agents_ += piece;
  source_.read(source_path(place.writing), source_link(), source_stamp(place.writing), place.offset, piece,
               [this, index, size](base::Result<std::string> bytes) {
                 if (phase_ == Phase::kOver) return;
                 if (!bytes.ok()) {
                   fail(bytes.status());
                   return;
                 }
                 Place& to = places_[index];
                 to.is_reading = false;
                 v1::StageOrder data;
                 data.mutable_data()->set_entry(to.writing);
                 data.mutable_data()->set_offset(to.offset);
                 data.mutable_data()->set_last(to.offset + bytes->size() == size);
                 to.offset += bytes->size();
                 sent_bytes_ += bytes->size();
                 sent_.insert(to.writing);
                 if (to.offset == to.end) to.writing = -1;
                 const std::size_t count = bytes->size();
                 data.mutable_data()->set_data(*std::move(bytes));
                 order(to, std::move(data), count, count);
                 pump(index);
               });
}

void Staging::finish_copy() {
  if (!is_copying() || !std::ranges::all_of(places_, [this](const Place& place) { return is_complete(place); })) return;
  if (phase_ == Phase::kCompare) return spread();
  report_result();
  ask_all(Phase::kClose, [](v1::StageOrder& order, std::size_t) { order.mutable_close(); });
}

void Staging::report_result() {
  std::vector<std::string> names;
  for (const Place& place : places_) {
    if (place.gets_files) names.push_back(place.host.name);
  }
  const std::string source = shown_source();
  const auto files = std::ranges::count(tree_.entries, v1::StageEntry::KIND_FILE, &v1::StageEntry::kind);
  const std::size_t changed = broadcast_ != nullptr ? broadcast_->changed_files() : sent_.size();
  if (names.empty()) {
    events_.say(fmt::format("staged {}: the hosts share it, so nothing was sent", source));
  } else if (changed == 0) {
    events_.say(fmt::format("staged {}: {} files, all present already", source, files));
  } else {
    constexpr std::size_t kNamed = 4;
    const std::size_t more = names.size() > kNamed ? names.size() - kNamed : 0;
    names.resize(names.size() - more);
    const std::uint64_t from_hosts = broadcast_ != nullptr ? broadcast_->peer_bytes() : 0;
    const std::string share =
        broadcast_ == nullptr ? "" : fmt::format(", {} of it from here", format_bytes(sent_bytes_));
    events_.say(fmt::format("staged {}: {} of {} files, {} in all{}, to {} on {}{}", source, changed, files,
                            format_bytes(sent_bytes_ + from_hosts), share, shown_target(), base::join(names, ", "),
                            more > 0 ? fmt::format(" and {} more", more) : ""));
  }
}

void Staging::report_progress() {
  if (!is_copying()) return;
  const std::uint64_t from_hosts = broadcast_ != nullptr ? broadcast_->peer_bytes() : 0;
  if (sent_bytes_ + from_hosts == 0) return;
  const auto copies = static_cast<std::uint64_t>(std::ranges::count(places_, true, &Place::gets_files));
  const std::string share = broadcast_ == nullptr ? "" : fmt::format(", {} of it from here", format_bytes(sent_bytes_));
  events_.say(fmt::format("staging {}: {} of at most {} sent{}", shown_source(), format_bytes(sent_bytes_ + from_hosts),
                          format_bytes(tree_.bytes * copies), share));
}

// True if a host that answers must also make progress: it misses blocks, and its sources can send them.
bool Staging::waits_for_blocks(const Place& place) const {
  return phase_ == Phase::kSpread && place.gets_files && broadcast_->misses_blocks(place.in_broadcast);
}

void Staging::check_silence() {
  // While this machine's own disk is slow, all hosts wait for it.
  const bool is_slow_here = source_.is_reading() && source_.reads_ended() == reads_at_last_check_;
  reads_at_last_check_ = source_.reads_ended();
  for (Place& place : places_) {
    if (phase_ == Phase::kOver) continue;
    const bool misses_blocks = place.unanswered.empty() && waits_for_blocks(place) && !is_slow_here;
    if (place.unanswered.empty() && !misses_blocks) continue;
    place.silent += limits_.period;
    const std::uint64_t bytes = misses_blocks ? 0 : place.unanswered.front().moving;
    const std::chrono::seconds moving{bytes / limits_.slowest_disk};
    // A host without blocks may wait for another one. That one is then named first.
    if (place.silent <= limits_.silence * (misses_blocks ? 2 : 1) + moving) continue;
    fail(base::deadline_exceeded(
        "{}: {}: no answer for {} s about {}: check that the disk there works, or leave the host out", place.host.name,
        option(), std::chrono::duration_cast<std::chrono::seconds>(place.silent).count(), shown_target()));
  }
}

void Staging::fail(base::Status why) {
  if (phase_ == Phase::kOver) return;
  phase_ = Phase::kOver;
  progress_.cancel();
  events_.done(std::move(why));
}

}  // namespace muster::launcherd::stage
