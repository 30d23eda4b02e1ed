// A process of ours with a socket as stdin and stdout and a pipe as stderr: the `ssh` program, or a local agent.
// Its own session (no terminal: no prompt, no Ctrl-C), default signals, only its stdio inherited. Reaped by the owner:
// this object, then the pump item that it becomes. Destruction ends it: TERM, then KILL after a moment; its pid is
// forgotten when it is reaped. What has closed its stderr after it was handed over has detached, and lives on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcherd/bootstrap/pump.h"
#include "launcherd/bootstrap/remote_program.h"

namespace muster::launcherd::inline bootstrap {

// Gathers bytes into lines for on_stderr; a partial last line comes out at the end; long lines are cut at 4 KiB.
class LineSplitter {
 public:
  explicit LineSplitter(std::function<void(const std::string& line)> on_line) : on_line_(std::move(on_line)) {}
  void add(std::string_view bytes);
  void finish();

 private:
  std::function<void(const std::string& line)> on_line_;
  std::string line_;
};

// Owns a pid until it is reaped.
class ChildProcess {
 public:
  ChildProcess(int pid, base::UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  int pidfd() const { return pidfd_.get(); }
  void terminate();
  // For it and what it started without a session or group of its own; nothing once reaped.
  void terminate_group();
  void kill_group();
  bool reap();    // false: still running
  void let_go();  // ends now by itself, or lives on and is reaped by whoever inherits it
  void forget();  // lives on, likewise
  int exit_status() const { return exit_status_; }

 private:
  int pid_;  // 0: reaped
  base::UniqueFd pidfd_;
  int exit_status_ = -1;
};

struct SpawnedChild {
  std::unique_ptr<ChildProcess> process;
  base::UniqueFd stdio;   // our end of the socket, blocking
  base::UniqueFd errors;  // the read end of its stderr, non-blocking
};
// `unset`: names that are taken out of the environment.
base::Result<SpawnedChild> spawn_child(const std::string& program, const std::vector<std::string>& argv,
                                       const std::vector<std::string>& unset);

class ChildProgram final : public RemoteProgram {
 public:
  // `read_failure` turns the end of a child into a failure of the connection where it is one (ssh's exit status 255);
  // may be empty.
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
