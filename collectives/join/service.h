// libmuster's service thread, the one thread that it keeps in a process. It sleeps in poll() until another rank
// connects, a rank asks for shared memory, or the session has a message. No data of collectives passes through it.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "collectives/transport/abort.h"
#include "collectives/transport/handshake.h"

namespace muster::collectives::inline join {

// An additional object that the thread polls. All calls come from that thread.
class Polled {
 public:
  virtual ~Polled() = default;
  virtual void add_polls(std::vector<pollfd>& fds) = 0;
  // Called for a descriptor of add_polls() that is ready. It returns false if the thread must no longer poll this
  // object.
  virtual bool on_ready(int fd) = 0;
};

struct ServiceConfig {
  int rank = 0;             // of the world
  base::UniqueFd listener;  // TCP, listening, non-blocking
  bool encrypts = false;    // true if this rank encrypts links
  // Receives a connection for rank 0's session (without a launcher), after its handshake. May be null.
  std::function<void(int rank, base::UniqueFd socket)> on_session;
};

class Service {
 public:
  // RESOURCE_EXHAUSTED if no thread or socket is left.
  static base::Result<std::unique_ptr<Service>> start(ServiceConfig config);
  // Ends the thread. Nothing is called back afterwards.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Any thread may call the following.

  // Returns the abstract Unix socket at which ranks of this host ask for shared memory.
  const std::string& unix_name() const;
  // Sets the job's secret. Until this call, connections wait in the listener's backlog.
  void set_secret(std::string secret);
  // Gives a copy of `fd` to ranks that ask for `name`, until unshare(). Only processes of our uid may ask.
  base::Status share(const std::string& name, int fd);
  void unshare(const std::string& name);

  // Waits for the connection that world rank `source` makes to us for `communicator`. UNAVAILABLE if that rank has not
  // connected and is_gone() returns true, which means that it has ended. is_gone() is called under a lock.
  base::Result<Connection> take_link(const std::string& communicator, int source, std::chrono::milliseconds deadline,
                                     const AbortRecord& abort, const std::function<bool()>& is_gone = {});
  // Ends `communicator`. Its unclaimed connections are closed, later ones are refused, and its memory is no longer
  // shared.
  void forget(const std::string& communicator);

  // Polls `polled` until its on_ready() returns false, or until the service ends.
  void watch(std::shared_ptr<Polled> polled);
  // Makes the thread poll again, because the descriptors to poll may have changed.
  void wake();
  // Names the thread "muster of 8" for a world of 8 ranks. The agent sees by it which world a process has formed.
  void name_thread(int size);
  // Runs `task` on the thread, soon.
  void post(std::function<void()> task);

 private:
  class Thread;
  explicit Service(std::shared_ptr<Thread> thread);
  std::shared_ptr<Thread> thread_;
};

// Asks the service at `unix_name`, which must have our uid, for the memory that it shares as `name`. Waits until the
// service shares it. UNAVAILABLE if that process has ended, or if `is_over` (called every 100 ms) says that the memory
// is no longer needed. `is_over` matters because a forked child may hold the socket of a process that has ended.
base::Result<base::UniqueFd> request_memory(const std::string& unix_name, const std::string& name,
                                            std::chrono::milliseconds deadline,
                                            const std::function<bool()>& is_over = {});

}  // namespace muster::collectives::join
