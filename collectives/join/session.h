// What a rank has of the world outside: keys that ranks put and wait for, the job's secret, and news of ranks that have
// ended. Under a launcher that is this host's agent (its Unix socket in MUSTER_SESSION_DIR, agent_socket.h), alone it
// is a thread of rank 0 (session_host.h); both speak the frames of rendezvous/session_frame.h
// (docs/rendezvous-protocol.md).
//
// Calls from any thread, the blocking ones not from the service thread: it is the one that reads the socket and calls
// back. What the socket does not take at once goes with the next call or on_ready(). Owner: the process's world;
// destroyed when no call is under way and nobody polls its descriptor any more.
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

// All are called on the service thread, from within on_ready(), and may call the session, but not destroy it.
struct SessionEvents {
  // A rank has ended: `cause` as in "was killed by signal 9 (SIGKILL)", "exited with 1"; `failed` is false for exit
  // code 0, and where a rank has left the world in order. Also for those that ended before we came; once for each rank.
  std::function<void(int rank, bool failed, const std::string& cause)> on_ended;
  // The launcher does not hear from this rank's host, or hears from it again. Only under a launcher; the rank may well
  // run. May be empty.
  std::function<void(int rank, bool is_silent)> on_silence{};
  // No more news will come, one sentence. Once.
  std::function<void(const base::Status& why)> on_lost;
};

class Session {
 public:
  using WatchId = std::uint64_t;

  // A connected socket to the agent, or to rank 0 after its handshake. Says hello and reads the welcome, but nothing
  // more. DEADLINE_EXCEEDED without an answer; UNAVAILABLE: the host of the session closed the connection, so it does
  // not want this rank.
  static base::Result<std::unique_ptr<Session>> connect(base::UniqueFd socket, int rank, SessionEvents events,
                                                        std::chrono::milliseconds deadline);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // 32 bytes, the same for all ranks of the job: from the agent. Rank 0 sends zeros, as who got there knows it.
  const std::string& secret() const;
  // How many worlds this rank had made of this job before: part of the names of keys.
  std::uint32_t generation() const;

  // Answered when the store has it. INVALID_ARGUMENT, RESOURCE_EXHAUSTED: the store does not take it. UNAVAILABLE: the
  // session is lost. DEADLINE_EXCEEDED also as soon as `is_over` (may be empty; asked every 100 ms) says so: it may be
  // stored all the same.
  base::Status put(std::string_view key, std::string_view value, std::chrono::milliseconds deadline,
                   const std::function<bool()>& is_over = {});
  // The value, as soon as there is one.
  base::Result<std::string> wait(std::string_view key, std::chrono::milliseconds deadline);
  // `found` is called once, on the service thread, when there is a value; not at all after unwatch() or when the
  // session is lost.
  WatchId watch(std::string_view key, std::function<void(std::string value)> found);
  // Called from another thread, `found` may just be running.
  void unwatch(WatchId id);
  // Without waiting for the answer: for the last words of a failed operation.
  void put_and_forget(std::string_view key, std::string_view value);
  // This rank leaves as it should; alone, its end is then no failure. What is put afterwards may be lost.
  void say_goodbye();

  // For the service thread: when fd() is readable, or writable while wants_write(), on_ready(). After an error the
  // session is lost (on_lost was called): fd() is to be polled no more.
  int fd() const;
  bool wants_write() const;
  base::Status on_ready();

 private:
  class State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace muster::collectives::join
