// Makes the wardens of an agent with many jobs. The nursery is a process of one thread. The agent forks it before it
// starts a second thread of its own.
// The agent cannot make wardens itself: after a fork, a process with threads may only exec.
//
// For each warden the nursery forks a child, the maker (its process name is muster-midwife). The maker makes session
// directory, lease and warden, as Warden::start does. It hands their descriptors to the agent and ends when the agent
// has received them.
// The warden is then a child of the agent, which is the next subreaper above.
// So several wardens can be made at the same time. A maker that hangs or crashes harms no other.
//
// Owner: the agent's main; one per process.
// Thread: the loop thread only, except for start(), which comes before any other thread. Only start() and the
// destructor block.
// Lifetime: the nursery ends with the agent, or when this object is destroyed. Wardens go on.
//
// Example:
//   MUSTER_ASSIGN_OR_RETURN(Nursery nursery, Nursery::start());
//   MUSTER_ASSIGN_OR_RETURN(PendingWarden pending, nursery.ask({.job_id = job, .agent_id = "0"}));
//   poll(pending.fd());  MUSTER_ASSIGN_OR_RETURN(std::optional<Warden> warden, pending.take());
#pragma once

#include <optional>

#include "agent/process/message_socket.h"
#include "agent/process/warden.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline process {

// A warden that is being made. If this is destroyed before take() has returned the warden, everything made so far
// ends by itself.
class PendingWarden {
 public:
  PendingWarden(WardenOptions options, base::UniqueFd answer)
      : options_(std::move(options)), socket_(std::move(answer)) {}

  int fd() const { return socket_.fd(); }  // readable when take() has a result
  // nullopt if the warden is not ready yet. Errors are those of Warden::start, and UNAVAILABLE: the process that
  // makes the warden has ended. After an error nothing is left of the warden.
  base::Result<std::optional<Warden>> take();

 private:
  WardenOptions options_;
  MessageSocket socket_;
};

class Nursery {
 public:
  // Forks the nursery. Makes the calling process a subreaper that is not dumpable.
  static base::Result<Nursery> start();
  ~Nursery();
  Nursery(Nursery&&) noexcept = default;
  Nursery& operator=(Nursery&&) = delete;

  // UNAVAILABLE: the nursery has ended.
  base::Result<PendingWarden> ask(const WardenOptions& options);

  int fd() const { return socket_.fd(); }  // readable only when the nursery has ended; it never sends anything
  pid_t pid() const { return pid_; }

 private:
  Nursery(base::UniqueFd socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}

  MessageSocket socket_;
  pid_t pid_ = 0;
};

}  // namespace muster::agent::process
