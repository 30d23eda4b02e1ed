// DialledAgents holds the agents that have connected to launcherd by themselves. It keeps each agent's stream until a
// caller takes it. Any host that has the join file may connect, and it chooses its own name. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "base/clock.h"
#include "launcherd/enrol/enrolment_seats.h"

namespace muster::launcherd::inline enrol {

class DialledAgents final : public EnrolmentSeats {
 public:
  struct Arrived {
    base::UniqueFd stream;  // as StartedAgent::stream, but before the marker line
    Ends ends;
  };
  // Called if the connection of this host's agent has ended, or if a new agent has taken its place. Any thread.
  explicit DialledAgents(std::function<void(const std::string& host)> on_gone) : on_gone_(std::move(on_gone)) {}

  base::Result<AssignedSeat> assign(const proto::EnrolmentHello& hello, const Ends& ends) override;
  void release(AssignedSeat assigned) override;
  void left(std::size_t seat) override;

  // Adds a host that connected to an earlier launcherd, so that is_known() is true for it.
  void add_known(const std::string& host);
  void forget(const std::string& host);  // the host has left; later callers treat it like any other host
  bool is_known(const std::string& host) const;
  bool is_waiting(const std::string& host) const;  // its agent is connected, and no caller has taken its stream
  int slots(const std::string& host) const;        // the number that the agent announced; at least 1

  // Blocks until the host's agent is connected. DEADLINE_EXCEEDED: no agent came in time. CANCELLED: `is_cancelled` is
  // true. The function checks `is_cancelled` at the start and after each wake().
  base::Result<Arrived> await_stream(const std::string& host, base::MonotonicTime deadline,
                                     const std::atomic<bool>& is_cancelled);
  void wake();

 private:
  struct Agent {
    std::size_t seat = 0;
    int slots = 1;
    std::string instance;
    base::UniqueFd stream;  // our end; invalid once a caller has it
    Ends ends;
  };
  void remove(std::size_t seat);

  const std::function<void(const std::string& host)> on_gone_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::string, Agent> agents_;  // by host; guarded by mutex_, like all members below
  std::set<std::string> known_;
  std::size_t next_seat_ = 0;
};

}  // namespace muster::launcherd::enrol
