// A rank's session: keys that ranks put and wait for, the job's secret, and reports of ranks that have ended. Under a
// launcher, this host's agent serves it, through its Unix socket in MUSTER_SESSION_DIR (agent_socket.h). Without one, a
// thread of rank 0 serves it (session_host.h). Both use the frames of rendezvous/session_frame.h
// (docs/rendezvous-protocol.md).
//
// Owner: the process's world. Destroy it only when no call is running and no thread polls its descriptor.
// Thread: any, but blocking calls must not come from the service thread. That thread reads the socket and calls back.
// Bytes that the socket does not take at once are sent with the next call or on_ready().
//
//   pollfd slot{session->fd(), static_cast<short>(POLLIN | (session->wants_write() ? POLLOUT : 0)), 0};
//   … poll …; if (slot.revents != 0) lost = !session->on_ready().ok();
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::collectives::inline join {

// The service thread calls these from within on_ready(). They may call the session, but must not destroy it.
struct SessionEvents {
  // Reports that a rank has ended. `cause` is text such as "was killed by signal 9 (SIGKILL)" or "exited with 1".
  // `failed` is false for exit code 0, and if the rank has left the world in good order. Called once for each rank,
  // also for ranks that ended before this one connected.
  std::function<void(int rank, bool failed, const std::string& cause)> on_ended;
  // Reports that the launcher has lost contact with this rank's host, or has regained it. The rank may still run. Only
  // a launcher sends this report. May be empty.
  std::function<void(int rank, bool is_silent)> on_silence{};
  // Reports that the session is lost, so that no more reports will follow. `why` is one sentence. Called once.
  std::function<void(const base::Status& why)> on_lost;
};

class Session {
 public:
  using WatchId = std::uint64_t;

  // `socket` is connected to the agent, or to rank 0 after its handshake. Sends the hello and reads the welcome, but no
  // byte after it. DEADLINE_EXCEEDED if no answer arrives. UNAVAILABLE if the session's host closed the connection,
  // which means that it refuses this rank.
  static base::Result<std::unique_ptr<Session>> connect(base::UniqueFd socket, int rank, SessionEvents events,
                                                        std::chrono::milliseconds deadline);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Returns 32 bytes from the agent, the same for all ranks of the job. Without a launcher they are zeros, because
  // ranks that reach rank 0 know the secret.
  const std::string& secret() const;
  // Returns how many worlds of this job the rank had before. The number is part of the names of keys.
  std::uint32_t generation() const;

  // Blocks until the store has the value. INVALID_ARGUMENT or RESOURCE_EXHAUSTED if the store refuses it. UNAVAILABLE
  // if the session is lost. DEADLINE_EXCEEDED after the deadline, or once `is_over` (may be empty; called every 100 ms)
  // returns true. The value may be stored even after DEADLINE_EXCEEDED.
  base::Status put(std::string_view key, std::string_view value, std::chrono::milliseconds deadline,
                   const std::function<bool()>& is_over = {});
  // Waits for the key and returns its value.
  base::Result<std::string> wait(std::string_view key, std::chrono::milliseconds deadline);
  // Calls `found` once, on the service thread, when the key has a value. It is not called after unwatch() or after the
  // session is lost.
  WatchId watch(std::string_view key, std::function<void(std::string value)> found);
  // If a thread other than the service thread calls this, `found` may still be running when it returns.
  void unwatch(WatchId id);
  // Puts a value without waiting for the answer. Use it for the last messages of a failed operation.
  void put_and_forget(std::string_view key, std::string_view value);
  // Announces that this rank leaves in good order. Without a launcher, its end is then no failure. Values put
  // afterwards may be lost.
  void send_goodbye();

  // For the service thread: call on_ready() when fd() is readable, or writable while wants_write(). After an error the
  // session is lost, and on_lost was called. Do not poll fd() then.
  int fd() const;
  bool wants_write() const;
  base::Status on_ready();

 private:
  class State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace muster::collectives::join
