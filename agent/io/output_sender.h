// Reads the stdout and stderr pipes of this host's ranks and sends them, as whole lines, over one TLS connection to the
// launcher; reconnects when it is cut, loses and doubles nothing. A launcher that has lost what it had acknowledged is
// told how much that was, and gets the rest.
//
// Besides terminals, whose bytes are sent as they come, a line is sent when its '\n' or '\r' arrived; an unfinished one
// when its pipe was empty for 1 s or it grew beyond 1 MiB. Frames stay in a bounded ring (4 MiB, and a file where one
// is asked for) until the launcher took them; when it is full, pipes are not read and ranks block: nothing is dropped,
// nothing grows. Owner: the agent's service. Runs its own thread (and a second one while it connects); callbacks come
// from the first, must be short and must not call flush_and_close_blocking() or stop(). Methods may be called from any
// thread. On destruction: stop(). Pipes that are still open are then closed.
//
//   MUSTER_ASSIGN_OR_RETURN(auto owned, OutputSender::start(config, events));  OutputSender& sender = *owned;
//   sender.add_rank(3, std::move(stdout_read_end), std::move(stderr_read_end));
//   ... the rank was reaped ...
//   sender.rank_exited(3);          // -> on_stderr_tail soon, on_ended when all its output is in the ring
//   sender.finish(deadline, done);  // after the last rank: done(ok) when the launcher took everything
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "base/tls.h"
#include "base/unique_fd.h"

namespace muster::agent::inline io {

struct OutputSenderConfig {
  // One attempt to reach the launcher; called on a helper thread, may block until `deadline`, must give up when
  // `cancel_fd` becomes readable. Returns a connected stream socket (TCP, or the mux's local end).
  // FAILED_PRECONDITION ends all attempts: there will never be another connection (the mux is gone).
  std::function<base::Result<base::UniqueFd>(base::MonotonicTime deadline, int cancel_fd)> connect;
  base::TlsKey key;  // of this agent
  int agent_index = 0;
  // No connection before there is output to send; none at all when finish() finds that there never was any, and then
  // nothing is sent either. OutputSenderEvents::on_any says which of the two it is.
  bool only_if_any = false;
  std::size_t ring_bytes = std::size_t{4} << 20;  // unacknowledged frames; at least 2.5 MiB
  // For a job that goes on while no launcher takes its output: beyond ring_bytes, as much as this in a file of
  // `spool_directory`. 0: none.
  std::size_t spool_bytes = 0;
  // Another launcher may come after this one, which may have lost what was acknowledged to this one: the connection
  // stays, and is made again, when all was taken.
  bool outlives_launcher = false;
  std::string spool_directory = {};
  base::Duration attempt_timeout = std::chrono::seconds(10);  // connect, handshake and first answer
  base::Duration retry_min = std::chrono::milliseconds(20);   // back-off, doubled each time
  base::Duration retry_max = std::chrono::seconds(1);
  base::Duration partial_line_after = std::chrono::seconds(1);
  base::Duration drain_after_exit = std::chrono::milliseconds(200);
};

struct RankOutputEnd {
  int rank = 0;
  std::uint64_t stdout_bytes = 0;
  std::uint64_t stderr_bytes = 0;
  std::string stderr_tail;  // the last 20 lines, at most 8 KiB
};

struct OutputSenderEvents {
  // Within drain_after_exit of rank_exited(), even while the launcher takes nothing: what the rank said last.
  std::function<void(int rank, std::string stderr_tail)> on_stderr_tail;
  // All output of the rank is read and framed (not yet acknowledged). Late when the launcher blocks.
  std::function<void(RankOutputEnd)> on_ended;
  // With only_if_any, once: true as soon as there is output, false when all ranks have ended without any, after
  // finish().
  std::function<void(bool)> on_any;
  // The connection came up (ok) or an attempt failed; for logs. Called at most once per attempt.
  std::function<void(base::Status)> on_connection;
};

class OutputSender {
 public:
  // RESOURCE_EXHAUSTED, or an error of errno: no thread or descriptor was to be had.
  static base::Result<std::unique_ptr<OutputSender>> start(OutputSenderConfig config, OutputSenderEvents events);
  // The same where there is surely one: aborts instead.
  OutputSender(OutputSenderConfig config, OutputSenderEvents events);
  ~OutputSender();
  OutputSender(const OutputSender&) = delete;
  OutputSender& operator=(const OutputSender&) = delete;

  // The read ends of the rank's pipes; an invalid fd is a stream without bytes. Grows stdout's pipe when there are few
  // ranks. A rank may come again after it ended (next attempt), not before.
  // With StreamKind::kTerminal nothing waits for the end of a line.
  enum class StreamKind { kLines, kTerminal };
  void add_rank(int rank, base::UniqueFd stdout_fd, base::UniqueFd stderr_fd, StreamKind kind = StreamKind::kLines);

  // The process was reaped: read to EOF, or what is in the pipes drain_after_exit later (a detached child holds them).
  void rank_exited(int rank);

  // No rank will be added any more. `done` once, on the sender's thread: ok when the launcher acknowledged everything,
  // DEADLINE_EXCEEDED or CANCELLED (stopped) with how much is left. Ranks that still run are waited for.
  void finish(base::MonotonicTime deadline, std::function<void(base::Status)> done);
  base::Status flush_and_close_blocking(base::MonotonicTime deadline);

  // Ends the threads; output not acknowledged is dropped.
  void stop();

 private:
  class Worker;
  explicit OutputSender(std::unique_ptr<Worker> worker);
  std::unique_ptr<Worker> worker_;
};

}  // namespace muster::agent::io
