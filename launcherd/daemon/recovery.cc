#include "launcherd/daemon/recovery.h"

#include <algorithm>
#include <array>

#include "base/cpu_set.h"
#include "base/strings.h"
#include "model/node_shape.h"
#include "proto/convert.h"
#include "proto/muster/v1/pool.pb.h"

namespace muster::launcherd::inline daemon {
namespace {

struct ResizeCauseWord {
  v1::ResizeCause wire;
  ResizeCause meaning;
};
constexpr std::array kResizeCauses = {ResizeCauseWord{v1::RESIZE_CAUSE_ASKED, ResizeCause::kAsked},
                                      ResizeCauseWord{v1::RESIZE_CAUSE_PREEMPTION, ResizeCause::kPreemption},
                                      ResizeCauseWord{v1::RESIZE_CAUSE_GROWTH, ResizeCause::kGrowth}};

base::Status no_recovery() {
  return base::data_loss("the stored record of where it runs is corrupt");
}

void set_share(const std::optional<model::HostShare>& share, v1::HostShare& to) {
  if (!share) return;
  to.set_decided(true);
  to.set_cpus(model::format_cpu_list(share->cpus));
  for (const std::string& device : share->devices) to.add_devices(base::valid_utf8(device));
  to.set_open(share->is_open);
  to.set_crowded(share->is_crowded);
}

// Returns false if the share is invalid.
bool read_share(const v1::HostShare& from, std::optional<model::HostShare>& share) {
  if (!from.decided()) return true;
  share.emplace();
  if (!from.cpus().empty()) {
    auto cpus = base::parse_number_list(from.cpus(), base::kMaxCpu);
    if (!cpus) return false;
    share->cpus = std::move(*cpus);
  }
  share->devices.assign(from.devices().begin(), from.devices().end());
  share->is_open = from.open();
  share->is_crowded = from.crowded();
  return true;
}

void set_generation(const ResumedGeneration& generation, v1::GenerationRecord& to) {
  to.set_counted(generation.state.counted);
  to.set_wanted(generation.state.wanted);
  for (const model::FailedHost& host : generation.state.failed) to.add_lost(base::valid_utf8(host.name));
  proto::set_failed_hosts(generation.state.failed, *to.mutable_failed_hosts());
  to.set_last_failed(base::valid_utf8(generation.state.last_failed));
  to.set_in_a_row(generation.state.in_a_row);
  if (generation.resize_to) to.set_resize_to(*generation.resize_to);
  if (generation.resize_to) {
    to.set_resize_cause(
        std::ranges::find(kResizeCauses, generation.resize_reason.cause, &ResizeCauseWord::meaning)->wire);
    to.set_resize_reason(base::valid_utf8(generation.resize_reason.text));
  }
  for (const model::HostSpec& host : generation.resize_hosts) {
    to.add_resize_hosts(fmt::format("{}:{}", model::display_name({.name = host.name}), host.slots.value_or(1)));
  }
  to.set_last_change(base::valid_utf8(generation.last_change));
  if (!generation.wait) return;
  v1::GenerationWait& wait = *to.mutable_wait();
  const GenerationEnd& end = generation.wait->end;
  wait.mutable_bad_hosts()->Assign(end.bad_hosts.begin(), end.bad_hosts.end());
  wait.set_failed_host(base::valid_utf8(end.failed_host));
  wait.set_has_progress(end.has_progress);
  wait.set_is_resize(end.is_resize);
  wait.set_reason(base::valid_utf8(generation.wait->reason));
  const auto at = std::chrono::floor<std::chrono::milliseconds>(end.at).time_since_epoch();
  wait.set_ended_ms(at.count());
  proto::set_failed_hosts(generation.wait->failed, *wait.mutable_failed_hosts());
  wait.mutable_unclean()->Assign(generation.wait->unclean.begin(), generation.wait->unclean.end());
}

// Returns false if the record is invalid.
bool read_generation(const v1::GenerationRecord& from, ResumedGeneration& generation) {
  if (from.counted() < 0 || from.wanted() < 1 || from.wanted() > model::kMaxRanks || from.resize_to() < 0 ||
      from.resize_to() > model::kMaxRanks) {
    return false;
  }
  generation.state = {.counted = from.counted(),
                      .wanted = from.wanted(),
                      .failed = proto::failed_hosts_of(from.failed_hosts()),
                      .last_failed = from.last_failed(),
                      .in_a_row = from.in_a_row()};
  if (from.failed_hosts().empty()) {
    for (const std::string& name : from.lost()) generation.state.failed.push_back({.name = name});
  }
  if (from.resize_to() > 0) generation.resize_to = from.resize_to();
  for (const std::string& host : from.resize_hosts()) {
    const auto parsed = model::parse_host_list(host, "resize_hosts");
    if (!parsed.ok() || parsed->size() != 1) return false;
    generation.resize_hosts.push_back(parsed->front());
  }
  if (const auto* const known = std::ranges::find(kResizeCauses, from.resize_cause(), &ResizeCauseWord::wire);
      known != kResizeCauses.end()) {
    generation.resize_reason = {known->meaning, from.resize_reason()};
  }
  generation.last_change = from.last_change();
  if (!from.has_wait()) return true;
  const v1::GenerationWait& wait = from.wait();
  generation.wait = {.end = {.bad_hosts = {wait.bad_hosts().begin(), wait.bad_hosts().end()},
                             .failed_host = wait.failed_host(),
                             .has_progress = wait.has_progress(),
                             .is_resize = wait.is_resize(),
                             .at = base::WallTime(std::chrono::milliseconds(wait.ended_ms()))},
                     .reason = wait.reason(),
                     .unclean = {wait.unclean().begin(), wait.unclean().end()},
                     .failed = proto::failed_hosts_of(wait.failed_hosts())};
  return true;
}

// Returns whether every entry refers to itself, or to an earlier entry that refers to itself.
bool are_firsts(const google::protobuf::RepeatedField<std::int32_t>& first_of) {
  for (int i = 0; i < first_of.size(); ++i) {
    const int first = first_of.Get(i);
    if (first < 0 || first > i || first_of.Get(first) != first) return false;
  }
  return true;
}

}  // namespace

std::string recovery_bytes(const Recovery& recovery) {
  v1::JobRecovery message;
  message.set_attempt(recovery.attempt);
  *message.mutable_placement() = proto::to_proto(recovery.placement);
  for (const model::PlacedHost& placed : recovery.placement.hosts) {
    v1::HostLogin& login = *message.add_logins();
    login.set_user(placed.host.user);
    login.set_port(placed.host.port);
    set_share(placed.share, *message.add_shares());
  }
  message.set_secret(recovery.secret);
  message.set_stop_cause(static_cast<int>(recovery.stop));
  message.set_stop_at_once(recovery.stops_at_once);
  message.set_stop_reason(base::valid_utf8(recovery.stop_reason));
  message.mutable_first_of()->Assign(recovery.first_of.begin(), recovery.first_of.end());
  if (recovery.generation) set_generation(*recovery.generation, *message.mutable_generation());
  return message.SerializeAsString();
}

base::Result<Recovery> recovery_of(const std::string& bytes) {
  v1::JobRecovery message;
  if (!message.ParseFromString(bytes) || message.logins_size() != message.placement().hosts_size() ||
      (message.shares_size() != 0 && message.shares_size() != message.logins_size()) || message.stop_cause() < 0 ||
      message.stop_cause() > static_cast<int>(StopCause::kOutputFailed) ||
      (message.first_of_size() != 0 && message.first_of_size() != message.logins_size()) ||
      !are_firsts(message.first_of())) {
    return no_recovery();
  }
  Recovery recovery;
  recovery.attempt = message.attempt();
  recovery.secret = message.secret();
  recovery.stop = static_cast<StopCause>(message.stop_cause());
  recovery.stops_at_once = message.stop_at_once();
  recovery.stop_reason = message.stop_reason();
  recovery.first_of.assign(message.first_of().begin(), message.first_of().end());
  if (message.has_generation() && !read_generation(message.generation(), recovery.generation.emplace())) {
    return no_recovery();
  }
  recovery.placement.size = message.placement().size();
  for (int i = 0; i < message.placement().hosts_size(); ++i) {
    const v1::PlacedHost& from = message.placement().hosts(i);
    model::PlacedHost& host = recovery.placement.hosts.emplace_back();
    host.host = {.name = from.name(), .user = message.logins(i).user(), .port = message.logins(i).port()};
    host.host.slots = host.slots = from.slots();
    if (message.shares_size() != 0 && !read_share(message.shares(i), host.share)) return no_recovery();
    for (const v1::PlacedRank& rank : from.ranks()) {
      if (rank.rank() < 0 || rank.rank() >= recovery.placement.size) return no_recovery();
      host.ranks.push_back({.rank = rank.rank(),
                            .local_rank = rank.local_rank(),
                            .local_size = rank.local_size(),
                            .cross_rank = rank.cross_rank(),
                            .cross_size = rank.cross_size(),
                            .host_index = rank.host_index()});
    }
  }
  for (const v1::RoleRanks& role : message.placement().roles()) {
    recovery.placement.roles.push_back({role.name(), role.first(), role.count()});
  }
  int ranks = 0;
  for (const model::PlacedHost& host : recovery.placement.hosts) ranks += static_cast<int>(host.ranks.size());
  if (ranks == 0 || ranks != recovery.placement.size) return no_recovery();
  return recovery;
}

}  // namespace muster::launcherd::daemon
