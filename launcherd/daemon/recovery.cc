#include "launcherd/daemon/recovery.h"

#include "base/cpu_set.h"
#include "base/strings.h"
#include "model/node_shape.h"
#include "proto/convert.h"
#include "proto/muster/v1/pool.pb.h"

namespace muster::launcherd::inline daemon {
namespace {

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
