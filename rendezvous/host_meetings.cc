// The whole of HostMeetings.
// Read it in this order: enter() and from_child(), gathered(), from_parent(), end().
#include "rendezvous/host_meetings.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace muster::rendezvous {
namespace {

constexpr std::size_t kMostMeetings = std::size_t{1} << 16;  // fences of different names at a time

}  // namespace

HostMeetings::HostMeetings(HostTree tree, int own_host, Links links, StoreLimits limits)
    : tree_(tree), own_(own_host), links_(std::move(links)), limits_(limits) {}

base::Status HostMeetings::enter(const std::string& name, std::uint64_t number, const std::vector<int>& members,
                                 std::string blob, Done done) {
  if (members.empty() || !tree_.has(members.front()) || !tree_.has(members.back())) {
    return base::invalid_argument("a fence of hosts that the job does not have");
  }
  if (name.size() > limits_.max_key_bytes || blob.size() > limits_.max_value_bytes) {
    return base::invalid_argument("a fence with a name of {} bytes and a blob of {} bytes; the limits are {} and {}",
                                  name.size(), blob.size(), limits_.max_key_bytes, limits_.max_value_bytes);
  }
  MUSTER_RETURN_IF_ERROR(check_room(blob.size()));
  MUSTER_ASSIGN_OR_RETURN(const auto meeting, open(name, number, HostSet(members)));
  meeting->second.done = std::move(done);
  total_bytes_ += blob.size();
  meeting->second.blobs.emplace(own_, std::move(blob));
  gathered(meeting);
  return base::ok_status();
}

// Returns the fence, and begins it if this host hears of it for the first time.
base::Result<HostMeetings::Meetings::iterator> HostMeetings::open(std::string_view name, std::uint64_t number,
                                                                  HostSet members) {
  auto found = open_.find(name);
  if (found != open_.end()) {
    if (found->second.number == number && found->second.members == members) return found;
    return base::invalid_argument(
        "fence '{}': number {} does not follow the fence of that name that is open, or has "
        "other hosts",
        base::printable(name), number);
  }
  if (const auto last = ended_.find(name); last != ended_.end() && number <= last->second.number) {
    return base::failed_precondition("fence '{}': number {} is over", base::printable(name), number);
  }
  if (open_.size() >= kMostMeetings) return base::resource_exhausted("more than {} fences at a time", kMostMeetings);
  Meeting meeting{.number = number, .members = std::move(members)};
  for (const auto& [first, last] : meeting.members.ranges()) {
    for (int host = first; host <= last; ++host) {
      const int child = tree_.child_towards(own_, host);
      if (child >= 0 && (meeting.children.empty() || meeting.children.back() != child)) {
        meeting.children.push_back(child);
      }
      if (child >= 0 || host == own_) ++meeting.below;
    }
  }
  std::sort(meeting.children.begin(), meeting.children.end());
  meeting.children.erase(std::unique(meeting.children.begin(), meeting.children.end()), meeting.children.end());
  return open_.emplace(name, std::move(meeting)).first;
}

base::Status HostMeetings::check_room(std::size_t more) const {
  // Blobs are held once as such and once in parts.
  if (total_bytes_ + 2 * more <= 2 * limits_.max_total_bytes) return base::ok_status();
  return base::resource_exhausted("the fences of this host hold {} bytes already", total_bytes_);
}

base::Status HostMeetings::from_child(std::string_view name, std::uint64_t number, std::string_view bytes,
                                      const std::function<base::Status(int child)>& on_child) {
  MUSTER_ASSIGN_OR_RETURN(MeetingPart part, parse_meeting_part(bytes, tree_.hosts));
  const int child = tree_.child_towards(own_, part.entries.front().host);
  const bool is_of_child = child >= 0 && std::ranges::all_of(part.entries, [&](const MeetingEntry& entry) {
                             return tree_.child_towards(own_, entry.host) == child;
                           });
  if (!is_of_child) return base::invalid_argument("a fence has blobs of hosts that are not below the sender");
  MUSTER_RETURN_IF_ERROR(check_room(bytes.size()));
  MUSTER_RETURN_IF_ERROR(on_child(child));
  if (const auto last = ended_.find(name); last != ended_.end() && number <= last->second.number) {
    if (number < last->second.number) return base::ok_status();  // the child repeats itself, and has got the blobs
    for (const HorovodValue& kept : last->second.parts) links_.to_child(child, name, number, kept);
    return base::ok_status();
  }
  MUSTER_ASSIGN_OR_RETURN(const auto meeting, open(name, number, std::move(part.members)));
  Meeting& at = meeting->second;
  if (at.is_sent) {  // the child lost its link, and perhaps what was sent to it
    for (const HorovodValue& kept : at.parts) links_.to_child(child, name, number, kept);
    return base::ok_status();
  }
  for (const MeetingEntry& entry : part.entries) {
    if (at.blobs.emplace(entry.host, entry.blob).second) total_bytes_ += entry.blob.size();
  }
  gathered(meeting);
  return base::ok_status();
}

// Goes on if all members of the subtree have entered.
void HostMeetings::gathered(Meetings::iterator meeting) {
  Meeting& at = meeting->second;
  if (at.is_sent || at.blobs.size() < at.below) return;
  std::vector<HorovodValue> parts = make_parts(at);
  for (const HorovodValue& part : parts) total_bytes_ += part->size();
  at.is_sent = true;
  if (at.below == at.members.size()) {  // this host is the turning point
    at.parts = std::move(parts);
    for (const HorovodValue& part : at.parts) send_down(meeting->first, at, part);
    return end(meeting);
  }
  at.sent = std::move(parts);
  for (const auto& [host, blob] : at.blobs) total_bytes_ -= blob.size();
  at.blobs.clear();
  for (const HorovodValue& part : at.sent) links_.to_parent(meeting->first, at.number, part);
}

std::vector<HorovodValue> HostMeetings::make_parts(const Meeting& meeting) const {
  std::vector<HorovodValue> parts;
  MeetingPart part{.members = meeting.members, .entries = {}};
  std::size_t bytes = 0;
  const auto flush = [&] {
    parts.push_back(make_horovod_value(encode_meeting_part(part)));
    part.entries.clear();
    bytes = 0;
  };
  constexpr std::size_t kEntryHead = 8;
  for (const auto& [host, blob] : meeting.blobs) {
    if (!part.entries.empty() && bytes + kEntryHead + blob.size() > limits_.max_value_bytes) flush();
    part.entries.push_back({host, blob});
    bytes += kEntryHead + blob.size();
  }
  flush();
  return parts;
}

void HostMeetings::send_down(std::string_view name, const Meeting& meeting, const HorovodValue& part) const {
  for (const int child : meeting.children) links_.to_child(child, name, meeting.number, part);
}

base::Status HostMeetings::from_parent(std::string_view name, std::uint64_t number, std::string_view bytes) {
  const auto last = ended_.find(name);
  if (last != ended_.end() && number <= last->second.number) return base::ok_status();  // sent twice after a lost link
  const auto meeting = open_.find(name);
  if (meeting == open_.end() || meeting->second.number != number || !meeting->second.is_sent) {
    return base::invalid_argument("received the end of a fence that this host has not entered");
  }
  Meeting& at = meeting->second;
  MUSTER_ASSIGN_OR_RETURN(const MeetingPart part, parse_meeting_part(bytes, tree_.hosts));
  if (!(part.members == at.members)) return base::invalid_argument("the end of a fence has other hosts");
  MUSTER_RETURN_IF_ERROR(check_room(bytes.size()));
  bool is_new = false;
  for (const MeetingEntry& entry : part.entries) {
    // Only a member needs the blobs. All others count them.
    const bool is_added = at.blobs.emplace(entry.host, at.done ? entry.blob : std::string_view()).second;
    if (is_added && at.done) total_bytes_ += entry.blob.size();
    is_new = is_new || is_added;
  }
  if (!is_new) return base::ok_status();
  at.parts.push_back(make_horovod_value(std::string(bytes)));
  total_bytes_ += bytes.size();
  send_down(name, at, at.parts.back());
  if (at.blobs.size() == at.members.size()) end(meeting);
  return base::ok_status();
}

// All blobs are here and were sent to the children.
void HostMeetings::end(Meetings::iterator meeting) {
  Meeting at = std::move(meeting->second);
  Ended& ended = ended_[meeting->first];
  open_.erase(meeting);
  forget(ended.parts);
  forget(at.sent);
  ended.number = at.number;
  ended.parts = std::move(at.parts);
  for (const auto& [host, blob] : at.blobs) total_bytes_ -= blob.size();
  if (!at.done) return;
  Blobs blobs;
  blobs.reserve(at.blobs.size());
  for (auto& [host, blob] : at.blobs) blobs.push_back(std::move(blob));
  at.done(std::move(blobs));
}

void HostMeetings::forget(std::vector<HorovodValue>& parts) {
  for (const HorovodValue& part : parts) total_bytes_ -= part->size();
  parts.clear();
}

void HostMeetings::parent_connected() {
  for (const auto& [name, meeting] : open_) {
    for (const HorovodValue& part : meeting.sent) links_.to_parent(name, meeting.number, part);
  }
}

}  // namespace muster::rendezvous
