// The one thread that libmuster keeps in a process: parked in poll() until another rank connects, asks for shared
// memory, or the session has news. No data of collectives passes here.
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

// What else the thread polls. All calls on the thread.
class Polled {
 public:
  virtual ~Polled() = default;
  virtual void add_polls(std::vector<pollfd>& fds) = 0;
  // One that add_polls() added and that has something. False: it is not to be polled any more, none of its fds.
  virtual bool on_ready(int fd) = 0;
};

struct ServiceConfig {
  int rank = 0;             // of the world
  base::UniqueFd listener;  // TCP, listening, non-blocking
  bool encrypts = false;    // links
  // A connection for the session of rank 0 (alone), after its handshake; may be null.
  std::function<void(int rank, base::UniqueFd socket)> on_session;
};

class Service {
 public:
  // RESOURCE_EXHAUSTED: no thread, no socket.
  static base::Result<std::unique_ptr<Service>> start(ServiceConfig config);
  // Ends the thread; nothing is called back any more.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // All of the following: any thread.

  // Abstract Unix socket where ranks of this host ask for shared memory.
  const std::string& unix_name() const;
  // Whoever connects before does not get in yet.
  void set_secret(std::string secret);
  // Gives a copy of `fd` to ranks that ask for this name, until unshare(). Only processes of our uid may ask.
  base::Status share(const std::string& name, int fd);
  void unshare(const std::string& name);

  // The connection that world rank `source` made to us for `communicator`; waits for it. UNAVAILABLE: is_gone() says
  // that the rank has ended, and it had not connected. is_gone() is called under a lock.
  base::Result<Connection> take_link(const std::string& communicator, int source, std::chrono::milliseconds deadline,
                                     const AbortRecord& abort, const std::function<bool()>& is_gone = {});
  // That communicator is over: its connections that nobody took are closed, those that still come are refused, and what
  // it shares is shared no more.
  void forget(const std::string& communicator);

  // Polled until it wants no more, or the service ends.
  void watch(std::shared_ptr<Polled> polled);
  // What is polled for may have changed.
  void wake();
  // On the thread, soon.
  void post(std::function<void()> task);

 private:
  class Thread;
  explicit Service(std::shared_ptr<Thread> thread);
  std::shared_ptr<Thread> thread_;
};

// Asks the service at `unix_name`, which must be of our uid, for the memory that it shares as `name`; waits until it
// does. UNAVAILABLE: that process has gone, or `is_over` (asked every 100 ms) says that the memory is of no use. A
// child that was forked may hold the socket of a process that has gone.
base::Result<base::UniqueFd> ask_for_memory(const std::string& unix_name, const std::string& name,
                                            std::chrono::milliseconds deadline,
                                            const std::function<bool()>& is_over = {});

}  // namespace muster::collectives::join
