// A way to run programs on a host (HostLink: one log-in, or one `ssh` process per program) and one that runs
// (RemoteProgram). Used by one thread at a time; calls block until there is progress, at most as long as the Waiter
// allows. Both are ended by destruction.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/net.h"
#include "base/unique_fd.h"
#include "launcherd/bootstrap/failure.h"
#include "launcherd/bootstrap/waiter.h"

namespace muster::launcherd::inline bootstrap {

class RemoteProgram {
 public:
  virtual ~RemoteProgram() = default;

  // Waits for progress and makes it: takes bytes from the front of `input`, appends to `output` (stdout, at most to the
  // end of a line, so that what follows the marker line is left in place) and `errors` (stderr). Returns without either
  // once has_ended(). A failure is one of the connection.
  virtual Failure exchange(std::string_view& input, std::string& output, std::string& errors, const Waiter& waiter) = 0;
  virtual Failure close_input(const Waiter& waiter) = 0;

  virtual bool has_ended() const = 0;   // nothing more will come
  virtual int exit_status() const = 0;  // -1: unknown; 128 + signal

  // From here on a thread of the bootstrap watches the program and carries its stdio; `input` is written first. Nothing
  // but destruction may follow. `on_stderr` as in BootstrapOptions.
  virtual Failure release(std::string_view input, std::function<void(const std::string& line)> on_stderr,
                          const Waiter& waiter, base::UniqueFd& stream) = 0;
};

class HostLink {
 public:
  virtual ~HostLink() = default;
  virtual Failure exec(const std::string& command, const Waiter& waiter, std::unique_ptr<RemoteProgram>& program) = 0;
  virtual Failure subsystem(const std::string& name, const Waiter& waiter, std::unique_ptr<RemoteProgram>& program) = 0;
  virtual std::string backend() const = 0;
  virtual std::vector<base::IpAddress> launcher_addresses() const { return {}; }
  virtual std::optional<base::IpAddress> host_address() const { return std::nullopt; }
  virtual std::string address() const { return {}; }  // for messages
};

// Runs to the end with `input` on stdin, or until `limit` bytes of stdout came. The program's own failure is no
// Failure.
struct ProgramResult {
  std::string output;
  std::string errors;
  int exit_status = -1;
};
Failure run_to_end(RemoteProgram& program, std::string_view input, std::size_t limit, const Waiter& waiter,
                   ProgramResult& result);

}  // namespace muster::launcherd::bootstrap
