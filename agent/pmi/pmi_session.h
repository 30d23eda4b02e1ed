// One rank's socket of PMI-1: bytes in, commands to the server, its answers out.
//
// Loop thread only; owned by the server, which outlives it. After an error it is closed and stays so.
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
  // The answer to a command; an error ends the session.
  using Answer = std::function<base::Result<std::string>(const PmiCommand& command)>;
  using Problem = std::function<void(const base::Status&)>;

  PmiSession(base::Loop& loop, base::UniqueFd socket, Answer answer, Problem on_problem);
  PmiSession(const PmiSession&) = delete;
  PmiSession& operator=(const PmiSession&) = delete;

  void send(std::string_view lines);
  // Takes what has come already, for a rank that has ended: others who hold its end may go on writing, so not for ever.
  void drain();
  bool is_open() const { return socket_.valid(); }
  // Of the process that sent what came last, as the kernel says; 0: not known.
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
  bool takes_nothing_ = false;
  base::Timer readable_;
  base::Timer writable_;
};

}  // namespace muster::agent::pmi
