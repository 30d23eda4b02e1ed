// Where the wardens of an agent with many jobs come from: a process of one thread, forked before the agent has a second
// one, which makes a warden whenever it is asked to. The agent itself could not any more: a copy of a process with
// threads may only exec.
//
// For each warden the nursery forks a child, the midwife. It makes session directory, lease and warden as
// Warden::start does, hands their descriptors to the agent, and ends when the agent has taken them; the warden is then
// a child of the agent, which is the next subreaper above. So several are made at the same time, and one that hangs or
// crashes while it starts harms no other.
//
// Owner: the agent's main; one per process. Loop thread only, but for start(), which comes before any other thread.
// Nothing blocks but start(). It ends with the agent, or when the Nursery is destroyed; wardens go on.
//
//   MUSTER_ASSIGN_OR_RETURN(Nursery nursery, Nursery::start());
//   MUSTER_ASSIGN_OR_RETURN(WardenBirth birth, nursery.ask({.job_id = job, .agent_id = "0"}));
//   poll(birth.fd()); MUSTER_ASSIGN_OR_RETURN(std::optional<Warden> warden, birth.take());
#pragma once

#include <optional>

#include "agent/process/message_socket.h"
#include "agent/process/warden.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline process {

// A warden that is being made. Destroyed before it was taken: what has been made ends by itself.
class WardenBirth {
 public:
  WardenBirth(WardenOptions options, base::UniqueFd answer)
      : options_(std::move(options)), socket_(std::move(answer)) {}

  int fd() const { return socket_.fd(); }  // readable when take() has something to say
  // nullopt: not yet. An error, as Warden::start has it, or that nobody is there to make one: nothing is left of it.
  base::Result<std::optional<Warden>> take();

 private:
  WardenOptions options_;
  MessageSocket socket_;
};

class Nursery {
 public:
  // Forks it. Makes the calling process a subreaper that is not dumpable.
  static base::Result<Nursery> start();
  ~Nursery();
  Nursery(Nursery&&) noexcept = default;
  Nursery& operator=(Nursery&&) = delete;

  // UNAVAILABLE: it has ended.
  base::Result<WardenBirth> ask(const WardenOptions& options);

  int fd() const { return socket_.fd(); }  // readable when it has ended; it never says anything else
  pid_t pid() const { return pid_; }

 private:
  Nursery(base::UniqueFd socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}

  MessageSocket socket_;
  pid_t pid_ = 0;
};

}  // namespace muster::agent::process
