// Agents that have come to a launcherd by themselves, each with the stream to it until somebody takes that: any host of
// the join file's owner may come, under the name that it gives itself. Thread-safe.
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
    base::UniqueFd stream;  // of what StartedAgent's is, before the marker line
    Ends ends;
  };
  // `on_gone`: the connection of this host's agent has ended, or a new one takes its place; any thread.
  explicit DialledAgents(std::function<void(const std::string& host)> on_gone) : on_gone_(std::move(on_gone)) {}

  base::Result<Taken> take(const proto::EnrolmentHello& hello, const Ends& ends) override;
  void give_back(Taken taken) override;
  void left(std::size_t seat) override;

  // A host that came to an earlier launcherd: it is known, too.
  void add_known(const std::string& host);
  void forget(const std::string& host);  // it has left: who wants it reaches it as any other
  bool is_known(const std::string& host) const;
  bool is_waiting(const std::string& host) const;  // its agent is here, and nobody has taken its stream
  int slots(const std::string& host) const;        // as its agent said; at least 1

  // Blocks until the host's agent is here. DEADLINE_EXCEEDED; CANCELLED: `is_cancelled` has become true, looked at now
  // and after each wake().
  base::Result<Arrived> take_stream(const std::string& host, base::MonotonicTime deadline,
                                    const std::atomic<bool>& is_cancelled);
  void wake();

 private:
  struct Agent {
    std::size_t seat = 0;
    int slots = 1;
    std::string instance;
    base::UniqueFd stream;  // ours; invalid: taken
    Ends ends;
  };
  void remove(std::size_t seat);

  const std::function<void(const std::string& host)> on_gone_;
  mutable std::mutex mutex_;
  std::condition_variable come_;
  std::map<std::string, Agent> agents_;  // by host; guarded by mutex_, as is all below
  std::set<std::string> known_;
  std::size_t next_seat_ = 0;
};

}  // namespace muster::launcherd::enrol
