#include "launcherd/run/host_roster.h"

#include <algorithm>

namespace muster::launcherd::inline run {

JobHost& HostRoster::add(const std::string& name, bool is_local) {
  JobHost& host = hosts_.emplace_back();
  host.agent = host.placed = static_cast<int>(hosts_.size()) - 1;
  host.name = name;
  host.facts.local = is_local;
  return host;
}

bool HostRoster::are_up() {
  const auto is_up = [](const JobHost& host) {
    return host.phase == HostPhase::kUp || host.phase == HostPhase::kUnused || host.is_left_out;
  };
  // Check all hosts again, because a host that was up may have failed since.
  return have_all(first_not_up_, is_up) && std::ranges::all_of(hosts_, is_up);
}

bool HostRoster::are_prepared() {
  return have_all(first_not_prepared_, [](const JobHost& host) {
    return host.phase == HostPhase::kPrepared || host.phase == HostPhase::kUnused || host.is_left_out;
  });
}

bool HostRoster::are_without_processes() {
  return have_all(first_not_gone_, [](const JobHost& host) { return is_without_processes(host.phase); });
}

bool HostRoster::note_tried(JobHost& host) {
  host.has_tried_all = true;
  if (first_not_tried_ == hosts_.size()) return false;
  return have_all(first_not_tried_, [](const JobHost& other) {
    return other.has_tried_all || other.phase == HostPhase::kUnused || other.is_left_out;
  });
}

bool HostRoster::is_any_waiting() const {
  return std::ranges::any_of(hosts_, [](const JobHost& host) { return is_waiting(host.phase); });
}

bool HostRoster::is_any_in(HostPhase phase) const {
  return std::ranges::any_of(hosts_, [phase](const JobHost& host) { return host.phase == phase; });
}

bool HostRoster::is_any_launched_before() const {
  return std::ranges::any_of(hosts_, &JobHost::has_launched);
}

HostFactsList HostRoster::facts() const {
  std::vector<const HostFacts*> facts;
  for (const JobHost& host : hosts_) facts.push_back(&host.facts);
  return HostFactsList(std::move(facts));
}

std::vector<JobHost*> HostRoster::by_placed(std::size_t count) {
  std::vector<JobHost*> by_placed(count);
  for (JobHost& host : hosts_) {
    if (host.placed >= 0) by_placed[static_cast<std::size_t>(host.placed)] = &host;
  }
  return by_placed;
}

std::vector<int> HostRoster::owners_of(const std::string& address) const {
  std::vector<int> agents;
  for (const JobHost& host : hosts_) {
    // Includes agents whose ranks have ended: rank 0's agent holds the job's store for the other ranks.
    const bool is_up = host.phase == HostPhase::kPrepared || host.phase == HostPhase::kLaunched ||
                       ((host.phase == HostPhase::kDraining || host.phase == HostPhase::kEmpty) && host.has_stream);
    if (is_up && has_address(host.facts.hello, address)) agents.push_back(host.agent);
  }
  return agents;
}

}  // namespace muster::launcherd::run
