// Reads the stdout and stderr pipes of this host's ranks and sends whole lines over one TLS connection to the
// launcher. It reconnects after a cut and neither loses nor doubles output. A launcher that has lost acknowledged
// output learns how much that was, and gets the rest.
//
// Lines: a line is sent when its '\n' or '\r' has arrived. An unfinished line is sent when its pipe was empty for 1
// s, or when it exceeds 1 MiB. Bytes of terminals are sent at once.
// Limits: frames stay in a bounded ring until the launcher has acknowledged them: 4 MiB, plus a file on request. While
// the ring is full, pipes are not read and ranks block. Nothing is dropped, and memory does not grow.
//
// Owner: the job's session.
// Thread: it runs its own thread, and a second one while it connects. Methods may be called from any thread.
// Callbacks come from the first thread. They must be short and must not call flush_and_close_blocking() or stop().
// The destructor calls stop() and closes pipes that are still open.
//
// Example:
//   MUSTER_ASSIGN_OR_RETURN(auto owned, OutputSender::start(config, events));  OutputSender& sender = *owned;
//   sender.add_rank(3, std::move(stdout_read_end), std::move(stderr_read_end));
//   ... the rank was reaped ...
//   sender.rank_exited(3);          // -> on_stderr_tail soon, on_ended when all its output is in the ring
//   sender.finish(deadline, done);  // after the last rank: done(ok) when the launcher has everything
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "agent/io/last_output.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/tls.h"
#include "base/unique_fd.h"

namespace muster::agent::inline io {

struct OutputSenderConfig {
  // Makes one attempt to reach the launcher. It is called on a helper thread. It may block until `deadline`, but must
  // give up when `cancel_fd` becomes readable. Returns a connected stream socket (TCP, or the mux's local end).
  // FAILED_PRECONDITION ends all attempts: there will never be another connection, because the mux is gone.
  std::function<base::Result<base::UniqueFd>(base::MonotonicTime deadline, int cancel_fd)> connect;
  base::TlsKey key;  // the key of this agent
  int agent_index = 0;
  // If set, connect only when there is output. If finish() finds that there never was any, never connect and send
  // nothing. OutputSenderEvents::on_any reports which of the two it is.
  bool only_if_any = false;
  std::size_t ring_bytes = std::size_t{4} << 20;  // limit of unacknowledged frames; at least 2.5 MiB
  // Size limit of a file in `spool_directory`, used when ring_bytes are full. It serves jobs that go on while no
  // launcher receives their output. 0 means no file.
  std::size_t spool_bytes = 0;
  // If true, keep the connection and reconnect, even after everything was acknowledged. Another launcher may come after
  // this one, and may have lost what this one acknowledged.
  bool outlives_launcher = false;
  std::string spool_directory = {};
  base::Duration attempt_timeout = std::chrono::seconds(10);  // for connect, handshake and first answer
  base::Duration retry_min = std::chrono::milliseconds(20);   // the back-off at first; it doubles each time
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
  // Reports the last stderr lines of a rank. Called within drain_after_exit of rank_exited(), even while the launcher
  // receives nothing.
  std::function<void(int rank, std::string stderr_tail)> on_stderr_tail;
  // Called when all output of the rank is read and framed. The launcher need not have acknowledged it. Called late if
  // the launcher does not read.
  std::function<void(RankOutputEnd)> on_ended;
  // Called once, and only with only_if_any. True as soon as there is output. False after finish(), if all ranks have
  // ended without output.
  std::function<void(bool)> on_any;
  // For logs: the connection came up (ok), an attempt failed, or the connection was lost.
  std::function<void(base::Status)> on_connection;
};

class OutputSender {
 public:
  // RESOURCE_EXHAUSTED, or an error of errno: no thread or descriptor was free.
  static base::Result<std::unique_ptr<OutputSender>> start(OutputSenderConfig config, OutputSenderEvents events);
  // Does the same as start(), but aborts on an error.
  OutputSender(OutputSenderConfig config, OutputSenderEvents events);
  ~OutputSender();
  OutputSender(const OutputSender&) = delete;
  OutputSender& operator=(const OutputSender&) = delete;

  // Adds a rank and owns the read ends of its pipes. An invalid fd means a stream without bytes. If there are few
  // ranks, this enlarges stdout's pipe. The same rank may be added again after it ended (next attempt), but not before.
  // StreamKind::kTerminal: bytes do not wait for the end of a line.
  enum class StreamKind { kLines, kTerminal };
  void add_rank(int rank, base::UniqueFd stdout_fd, base::UniqueFd stderr_fd, StreamKind kind = StreamKind::kLines);

  // Call it when the process was reaped. The sender reads its pipes to EOF. If a detached child holds them open, the
  // sender waits for drain_after_exit, reads what is in them then, and no more.
  void rank_exited(int rank);

  // Calls `done` on the sender's thread, soon and once: the last output of each rank that has written something, as far
  // as it was read. After stop(), there is none.
  void last_outputs(std::function<void(std::map<int, LastOutput>)> done);

  // Declares that no rank will be added any longer. The sender waits for ranks that still run. It calls `done` once,
  // on its thread.
  // The status is ok if the launcher acknowledged everything. Otherwise it is DEADLINE_EXCEEDED or CANCELLED
  // (stopped), and its text says how much is left.
  void finish(base::MonotonicTime deadline, std::function<void(base::Status)> done);
  base::Status flush_and_close_blocking(base::MonotonicTime deadline);

  // Ends the threads. Unacknowledged output is dropped.
  void stop();

 private:
  class Worker;
  explicit OutputSender(std::unique_ptr<Worker> worker);
  std::unique_ptr<Worker> worker_;
};

}  // namespace muster::agent::io
