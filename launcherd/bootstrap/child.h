// A child process of the launcher: the `ssh` program or a local agent. Its stdin and stdout are a socket, its stderr
// is a pipe. The child has its own session, so it has no terminal, no prompt and no Ctrl-C. It has default signal
// handlers and inherits only its stdio.
//
// Owner: ChildProgram owns the child; after release() an item of the pump does. The owner reaps the child. Destruction
// ends the child by SIGTERM, and by SIGKILL 2 s later (kChildTermGrace). The owner forgets the pid when it reaps the
// child. A child that closes its stderr after release() has detached itself and lives on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcherd/bootstrap/pump.h"
#include "launcherd/bootstrap/remote_program.h"

namespace muster::launcherd::inline bootstrap {

// Splits bytes into lines for on_stderr. finish() also emits an incomplete last line. Lines are cut at 4 KiB.
class LineSplitter {
 public:
  explicit LineSplitter(std::function<void(const std::string& line)> on_line) : on_line_(std::move(on_line)) {}
  void add(std::string_view bytes);
  void finish();

 private:
  std::function<void(const std::string& line)> on_line_;
  std::string line_;
};

// Owns the pid of a child until the child is reaped.
class ChildProcess {
 public:
  ChildProcess(int pid, base::UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  int pidfd() const { return pidfd_.get(); }
  void terminate();
  // Signals the child and every process it started that stays in its session and group. No effect after reaping.
  void terminate_group();
  void kill_group();
  bool reap();  // false if the child still runs
  // Waits up to 500 ms for the child to end, then calls forget().
  void let_go();
  void forget();  // lets the child live on; the process that inherits it reaps it
  int exit_status() const { return exit_status_; }

 private:
  int pid_;  // 0 once the child is reaped
  base::UniqueFd pidfd_;
  int exit_status_ = -1;
};

struct SpawnedChild {
  std::unique_ptr<ChildProcess> process;
  base::UniqueFd stdio;   // our blocking end of the socket
  base::UniqueFd errors;  // the non-blocking read end of the child's stderr
};
enum class ChildLife {
  kOwn,
  kOfThisThread,  // SIGKILL ends the child when the calling thread ends, and so also if this process is killed
};
// `unset` lists the names to remove from the child's environment.
base::Result<SpawnedChild> spawn_child(const std::string& program, const std::vector<std::string>& argv,
                                       const std::vector<std::string>& unset, ChildLife life = ChildLife::kOwn);

class ChildProgram final : public RemoteProgram {
 public:
  // `read_failure` turns the child's end into a connection failure, for example for ssh's exit status 255. May be
  // empty.
  ChildProgram(SpawnedChild child, Pump& pump, std::function<Failure(int, const std::string&)> read_failure);

  Failure exchange(std::string_view& input, std::string& output, std::string& errors, const Waiter& waiter) override;
  Failure close_input(const Waiter& waiter) override;
  bool has_ended() const override { return has_ended_; }
  int exit_status() const override { return exit_status_; }
  Failure release(std::string_view input, std::function<void(const std::string& line)> on_stderr, const Waiter& waiter,
                  base::UniqueFd& stream) override;

 private:
  bool write_some(std::string_view& input);
  bool read_line(std::string& output);
  bool read_errors(std::string& errors);
  Failure after_end();

  SpawnedChild child_;
  Pump& pump_;
  std::function<Failure(int, const std::string&)> read_failure_;
  std::string all_errors_;
  bool is_output_open_ = true;
  bool are_errors_open_ = true;
  bool has_ended_ = false;
  int exit_status_ = -1;
};

}  // namespace muster::launcherd::bootstrap
