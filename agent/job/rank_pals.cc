#include "agent/job/rank_pals.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "agent/job/env_entries.h"
#include "agent/pmi/apinfo.h"
#include "base/file.h"
#include "base/hmac.h"
#include "base/little_endian.h"
#include "base/net.h"
#include "base/strings.h"
#include "proto/world_bytes.h"

namespace muster::agent::inline job {
namespace {

constexpr const char* kFileName = "apinfo";
// The port range that flux-coral2 gives to programs of Cray MPICH unless its site sets another.
constexpr int kFirstPort = 11'000;
constexpr int kPorts = 1'000;

constexpr const char* kPalsVariables[] = {
    "PALS_APID",      "PALS_APINFO",    "PALS_RANKID",      "PALS_LOCAL_RANKID", "PALS_NODEID",      "PALS_SPOOL_DIR",
    "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", "PMI_CONTROL_PORT", "PMI_SHARED_SECRET", "PMI_UNIVERSE_SIZE"};

std::uint64_t number_of(std::string_view secret, std::string_view purpose) {
  return base::get_little_endian<std::uint64_t>(base::hmac_sha256(secret, {purpose}).data());
}

// Fails if another process listens at this port.
base::Status check_port(int port) {
  MUSTER_ASSIGN_OR_RETURN(const base::IpAddress any, base::IpAddress::parse("0.0.0.0"));
  return base::listen_on(any, static_cast<std::uint16_t>(port), 1).status();
}

}  // namespace

std::vector<std::string> pals_variable_names() {
  return {std::begin(kPalsVariables), std::end(kPalsVariables)};
}

void RankPals::open(const v1::Launch& launch, const std::string& session_dir, const std::string& session_secret) {
  // If the World cannot be parsed, RankPmi has already reported it.
  auto world = proto::world_of_bytes(launch.world());
  if (launch.world().empty() || !world || !world->pals()) return;
  world_ = *std::move(world);
  host_ = launch.host();
  if (host_ < 0 || host_ >= world_.hosts_size() || session_secret.empty()) return;
  base::Status opened = write_file(session_dir);
  if (opened.ok()) opened = choose_ports(session_secret);
  if (opened.ok()) return;
  directory_.clear();
  on_problem_(opened.with_context("programs of Cray MPICH will not find each other"));
}

base::Status RankPals::write_file(const std::string& session_dir) {
  std::vector<ApinfoHost> hosts;
  for (const v1::WorldHost& host : world_.hosts()) {
    hosts.push_back({host.name(), {host.ranks().begin(), host.ranks().end()}});
  }
  std::vector<ApinfoProgram> programs;
  for (const v1::WorldProgram& program : world_.programs()) {
    programs.push_back({program.ranks(), program.cpus_per_rank()});
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string file, apinfo_file(hosts, programs));
  directory_ = session_dir + "/pals";
  MUSTER_RETURN_IF_ERROR(base::make_private_directory(directory_));
  return base::write_file_atomically(fmt::format("{}/{}", directory_, kFileName), file);
}

// Chooses the same ports on all hosts, one more than there are programs. No other job on these hosts may use them.
base::Status RankPals::choose_ports(const std::string& session_secret) {
  if (world_.hosts_size() < 2) return base::ok_status();
  const int count = world_.programs_size() + 1;
  if (count > kPorts) {
    return base::resource_exhausted("{} programs need {} ports, but only {} are available; start fewer programs",
                                    count - 1, count, kPorts);
  }
  const auto first = static_cast<int>(number_of(session_secret, "pals ports") % kPorts);
  std::vector<std::string> ports;
  for (int i = 0; i < count; ++i) {
    const int port = kFirstPort + (first + i) % kPorts;
    MUSTER_RETURN_IF_ERROR(check_port(port).with_context("start the job again, so that it gets other ports"));
    ports.push_back(std::to_string(port));
  }
  ports_ = base::join(ports, ",");
  secret_ = std::to_string(number_of(session_secret, "pals secret"));
  return base::ok_status();
}

void RankPals::plan(SpawnRequest& request) const {
  if (directory_.empty()) return;
  const auto set = [&](const std::string& name, const std::string& value) {
    unset_entry(name, request.env);
    request.env.push_back(fmt::format("{}={}", name, value));
  };
  const auto& ranks = world_.hosts(host_).ranks();
  const auto local_rank = std::distance(ranks.begin(), std::find(ranks.begin(), ranks.end(), request.rank));
  set("PALS_APID", world_.name());
  set("PALS_APINFO", fmt::format("{}/{}", directory_, kFileName));
  set("PALS_RANKID", std::to_string(request.rank));
  set("PALS_LOCAL_RANKID", std::to_string(local_rank));
  set("PALS_NODEID", std::to_string(host_));
  set("PALS_SPOOL_DIR", directory_);
  set("PMI_LOCAL_RANK", std::to_string(local_rank));
  set("PMI_LOCAL_SIZE", std::to_string(ranks.size()));
  set("PMI_UNIVERSE_SIZE", std::to_string(world_.size()));
  if (ports_.empty()) return;
  set("PMI_CONTROL_PORT", ports_);
  set("PMI_SHARED_SECRET", secret_);
}

}  // namespace muster::agent::job
