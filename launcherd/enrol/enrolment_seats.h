// EnrolmentSeats decides which agents may enrol by one join file, and for which host. EnrolmentServer
// (enrolment_server.h) calls it, then carries the connection's bytes to and from the returned stream. Thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/net.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "proto/enrolment.h"

namespace muster::launcherd::inline enrol {

class EnrolmentSeats {
 public:
  struct AssignedSeat {
    std::size_t seat = 0;
    std::string name;
    base::UniqueFd stream;
  };
  struct Ends {  // the two addresses of an agent's connection
    std::optional<base::IpAddress> host;
    std::optional<base::IpAddress> launcher;
  };
  virtual ~EnrolmentSeats() = default;

  // Returns the agent's end of its host's stream. The error says in one sentence why the agent gets none.
  virtual base::Result<AssignedSeat> assign(const proto::EnrolmentHello& hello, const Ends& ends) = 0;
  // Returns a seat whose agent did not get its reply. Another connection of that agent may take the seat.
  virtual void release(AssignedSeat assigned) = 0;
  // The agent got its reply, and its connection has since ended.
  virtual void left(std::size_t seat) = 0;
};

}  // namespace muster::launcherd::enrol
