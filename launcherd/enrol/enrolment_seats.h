// EnrolmentSeats decides which agents may enrol by one join file, and for which host. EnrolmentServer
// (enrolment_server.h) calls it, and then carries bytes between the connection and the returned stream. Thread-safe.
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

  // Returns the agent's end of its host's stream. The error is one sentence that says why the agent gets no seat.
  virtual base::Result<AssignedSeat> assign(const proto::EnrolmentHello& hello, const Ends& ends) = 0;
  // Frees a seat whose agent did not get its reply. Another connection of that agent may get the seat.
  virtual void release(AssignedSeat assigned) = 0;
  // Call it when an agent that got its reply has lost its connection.
  virtual void left(std::size_t seat) = 0;
};

}  // namespace muster::launcherd::enrol
