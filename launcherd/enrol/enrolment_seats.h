// Who may enrol by one join file, and as which host: asked by the enrolment server (enrolment_server.h), which then
// carries the connection's bytes to and from the stream that it is given. Thread-safe.
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
  struct Taken {
    std::size_t seat = 0;
    std::string name;
    base::UniqueFd stream;
  };
  struct Ends {  // of an agent's connection
    std::optional<base::IpAddress> host;
    std::optional<base::IpAddress> launcher;
  };
  virtual ~EnrolmentSeats() = default;

  // The agent's end of the stream of its host. The error says in a sentence why there is none for it.
  virtual base::Result<Taken> take(const proto::EnrolmentHello& hello, const Ends& ends) = 0;
  // Who has taken it was never told so: another connection of that agent may take it.
  virtual void give_back(Taken taken) = 0;
  // It was told, and its connection has ended.
  virtual void left(std::size_t seat) = 0;
};

}  // namespace muster::launcherd::enrol
