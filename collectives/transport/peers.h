// The algorithms' view of the ranks of their communicator: names for messages, and links that are made at the first
// use. The communicator implements it, so nothing here depends on how ranks are connected.
#pragma once

#include <string>

#include "base/status.h"
#include "collectives/transport/abort.h"
#include "collectives/transport/link.h"
#include "collectives/transport/wait.h"

namespace muster::collectives::inline transport {

class Peers {
 public:
  virtual ~Peers() = default;
  virtual int rank() const = 0;  // of the communicator
  virtual int size() const = 0;

  // Returns the link to another rank. It is the same object until the link breaks. The call may wait for that rank to
  // connect. It then returns the errors of a wait (wait.h).
  virtual base::Result<Link*> link(int peer) = 0;
  // Returns the peer's name in messages, by its rank in the world: "rank 3 (n2)".
  virtual std::string name(int peer) const = 0;
  virtual int world_rank(int peer) const = 0;
  virtual std::string host(int peer) const = 0;

  // Returns whether the peer is known to have ended. Then only bytes that it sent before can still arrive.
  virtual bool is_gone(int peer) const = 0;

  virtual const WaitPolicy& policy() const = 0;
  virtual const AbortRecord& abort() const = 0;
  // Returns the flag that peers ring when they move bytes in this rank's ring links.
  virtual Flag& bell() = 0;
};

}  // namespace muster::collectives::transport
