#include "launcherd/enrol/dialled_agents.h"

#include <sys/socket.h>

#include <algorithm>

#include "base/net.h"

namespace muster::launcherd::inline enrol {

base::Result<EnrolmentSeats::AssignedSeat> DialledAgents::assign(const proto::EnrolmentHello& hello, const Ends& ends) {
  const std::string& host = hello.names.front();
  MUSTER_ASSIGN_OR_RETURN(base::FdPair streams, base::make_socketpair(SOCK_STREAM));
  const std::lock_guard lock(mutex_);
  const auto found = agents_.find(host);
  // The same agent may connect again, because its old connection was cut without notice.
  if (found != agents_.end() && found->second.instance != hello.instance) {
    return base::already_exists(
        "refused a second agent of host {}{}: one is connected already; give it --host NAME if it runs "
        "on another host, else end one of them",
        host, ends.host ? " from " + ends.host->str() : "");
  }
  Agent& agent = agents_[host];
  agent = {.seat = next_seat_++,
           .slots = std::max(1, hello.slots),
           .instance = hello.instance,
           .stream = std::move(streams.first),
           .ends = ends};
  known_.insert(host);
  arrived_.notify_all();
  return AssignedSeat{agent.seat, host, std::move(streams.second)};
}

void DialledAgents::release(AssignedSeat assigned) {
  remove(assigned.seat);
}

void DialledAgents::left(std::size_t seat) {
  remove(seat);
}

void DialledAgents::remove(std::size_t seat) {
  std::string host;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(agents_, [seat](const auto& each) { return each.second.seat == seat; });
    if (found == agents_.end()) return;
    host = found->first;
    agents_.erase(found);
  }
  on_gone_(host);
}

void DialledAgents::add_known(const std::string& host) {
  const std::lock_guard lock(mutex_);
  known_.insert(host);
}

void DialledAgents::forget(const std::string& host) {
  const std::lock_guard lock(mutex_);
  if (!agents_.contains(host)) known_.erase(host);
}

bool DialledAgents::is_known(const std::string& host) const {
  const std::lock_guard lock(mutex_);
  return known_.contains(host);
}

bool DialledAgents::is_waiting(const std::string& host) const {
  const std::lock_guard lock(mutex_);
  const auto found = agents_.find(host);
  return found != agents_.end() && found->second.stream.valid();
}

int DialledAgents::slots(const std::string& host) const {
  const std::lock_guard lock(mutex_);
  const auto found = agents_.find(host);
  return found != agents_.end() ? found->second.slots : 1;
}

base::Result<DialledAgents::Arrived> DialledAgents::await_stream(const std::string& host, base::MonotonicTime deadline,
                                                                 const std::atomic<bool>& is_cancelled) {
  std::unique_lock lock(mutex_);
  const auto is_here = [&] {
    const auto found = agents_.find(host);
    return found != agents_.end() && found->second.stream.valid();
  };
  if (!arrived_.wait_until(lock, deadline, [&] { return is_cancelled || is_here(); })) {
    return base::deadline_exceeded(
        "its agent is not connected: start muster-agent --join FILE there again, or find out why it ended");
  }
  if (is_cancelled) return base::cancelled("cancelled");
  Agent& agent = agents_.at(host);
  return Arrived{std::move(agent.stream), agent.ends};
}

void DialledAgents::wake() {
  const std::lock_guard lock(mutex_);
  arrived_.notify_all();
}

}  // namespace muster::launcherd::enrol
