// EnrolmentWave is a set of hosts whose agents must enrol by one join file. Each host is a seat with a stream to its
// agent. The caller has one end from the beginning. The agent of that host gets the other end. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/net.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "launcherd/enrol/enrolment_seats.h"

namespace muster::launcherd::inline enrol {

// Finds the host among `expected` for an agent that calls itself by `agent_names` and connects from `peer`. It compares
// whole names first. Then it compares the part before the first dot, if only one host has that part. Then it compares
// addresses, if a host is named by its address. Case is ignored. Pure.
std::optional<std::size_t> match_host(const std::vector<std::string>& expected,
                                      const std::vector<std::string>& agent_names,
                                      const std::optional<base::IpAddress>& peer);

class EnrolmentWave final : public EnrolmentSeats {
 public:
  // RESOURCE_EXHAUSTED if no descriptors are left.
  static base::Result<std::shared_ptr<EnrolmentWave>> make(std::vector<std::string> names);

  // Returns the caller's end of a seat; works once. Reads return EOF if the seat stays empty or the agent is gone.
  base::UniqueFd take_stream(std::size_t seat);
  // Returns why a seat stays empty. Empty if the seat is occupied or may still be assigned.
  std::string reason(std::size_t seat) const;

  Ends ends(std::size_t seat) const;
  base::Result<AssignedSeat> assign_seat(const std::vector<std::string>& agent_names, const Ends& ends);
  base::Result<AssignedSeat> assign(const proto::EnrolmentHello& hello, const Ends& ends) override {
    return assign_seat(hello.names, ends);
  }
  void release(AssignedSeat assigned) override;
  void left(std::size_t) override {}  // nothing to do, because the caller reads EOF from its end of the stream

  // Both functions give up seats, unless the seats are occupied already. A seat that was given up stays empty for the
  // reason `why`.
  void give_up(const std::vector<std::size_t>& seats, const std::string& why);
  void give_up_all(const std::string& why);

  bool is_complete() const;  // true once every seat is occupied or given up
  bool is_any_occupied(const std::vector<std::size_t>& seats) const;
  bool are_given_up(const std::vector<std::size_t>& seats) const;  // true if all these seats were given up

 private:
  struct Seat {
    base::UniqueFd ours;
    base::UniqueFd agents;
    bool is_occupied = false;
    Ends ends;
    std::string reason;
  };
  explicit EnrolmentWave(std::vector<std::string> names) : names_(std::move(names)), seats_(names_.size()) {}
  std::vector<std::string> missing() const;

  const std::vector<std::string> names_;
  mutable std::mutex mutex_;
  std::vector<Seat> seats_;  // guarded by mutex_
};

}  // namespace muster::launcherd::enrol
