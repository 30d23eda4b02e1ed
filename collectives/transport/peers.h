// What algorithms know of the ranks of their communicator: links to them, made when first needed, and names for
// messages. The communicator implements it; nothing here depends on how ranks are connected.
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

  // To another rank; the same object until it breaks. May wait until that rank is connected, and then fails as a wait
  // does (wait.h).
  virtual base::Result<Link*> link(int peer) = 0;
  // As messages name it: "rank 3 (n2)", by its rank in the world.
  virtual std::string name(int peer) const = 0;
  virtual int world_rank(int peer) const = 0;
  virtual std::string host(int peer) const = 0;

  // Whether it is known to have ended: nothing more comes from it but what it sent before.
  virtual bool is_gone(int peer) const = 0;

  virtual const WaitPolicy& policy() const = 0;
  virtual const AbortRecord& abort() const = 0;
  // What this rank's ring links ring.
  virtual Flag& bell() = 0;
};

}  // namespace muster::collectives::transport
