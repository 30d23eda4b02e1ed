// One rank's PMI-1 socket: it reads bytes, hands commands to the server, and writes the answers.
//
// Owner: the server, which outlives it.
// Thread: the loop thread only.
// Errors: after an error the socket is closed and stays closed.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "agent/pmi/pmi_line.h"
#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline pmi {

class PmiSession {
 public:
  // Returns the answer to a command. An error ends the session.
  using Answer = std::function<base::Result<std::string>(const PmiCommand& command)>;
  using Problem = std::function<void(const base::Status&)>;

  PmiSession(base::Loop& loop, base::UniqueFd socket, Answer answer, Problem on_problem);
  PmiSession(const PmiSession&) = delete;
  PmiSession& operator=(const PmiSession&) = delete;

  void send(std::string_view lines);
  // Reads what has already come from a rank that has ended. The number of reads is limited, because other processes
  // with the rank's descriptor may go on writing.
  void drain();
  bool is_open() const { return socket_.valid(); }
  // Returns the pid of the process that sent the last bytes, as the kernel reports it. 0 if not known.
  pid_t sender() const { return sender_; }

 private:
  void readable();
  bool read_some();
  ssize_t receive(char* bytes, std::size_t size);
  void obey();
  void flush();
  void close();
  void fail(const base::Status& why);

  base::Loop& loop_;
  base::UniqueFd socket_;
  const Answer answer_;
  const Problem on_problem_;
  PmiReader reader_;
  pid_t sender_ = 0;
  std::string unsent_;
  bool is_write_closed_ = false;
  base::Timer readable_;
  base::Timer writable_;
};

}  // namespace muster::agent::pmi
