// HostLink runs programs on a host, over one log-in or by one `ssh` process per program. RemoteProgram is one running
// program.
// Thread: one thread uses an object at a time. Calls block until there is progress, at most as long as the Waiter
// allows.
// Owner: the destructor ends the program or the link.
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

  // Waits until bytes can move, then moves them. Removes sent bytes from the front of `input`. Appends stdout to
  // `output` up to the end of a line, so that bytes after the marker line stay unread. Appends stderr to `errors`. Once
  // has_ended(), returns without moving bytes. A Failure always means that the connection failed.
  virtual Failure exchange(std::string_view& input, std::string& output, std::string& errors, const Waiter& waiter) = 0;
  virtual Failure close_input(const Waiter& waiter) = 0;

  virtual bool has_ended() const = 0;   // no more output will come
  virtual int exit_status() const = 0;  // -1 if unknown; 128 + signal if a signal ended it

  // Hands the program to a thread of the bootstrap. That thread watches it and carries its stdio to `stream`. `input`
  // precedes the bytes from `stream`. Only destruction may follow this call. `on_stderr` is that of BootstrapOptions.
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

// Runs the program to its end with `input` on stdin. Keeps at most `limit` bytes each of stdout and stderr. A non-zero
// exit status is not a Failure.
struct ProgramResult {
  std::string output;
  std::string errors;
  int exit_status = -1;
};
Failure run_to_end(RemoteProgram& program, std::string_view input, std::size_t limit, const Waiter& waiter,
                   ProgramResult& result);

}  // namespace muster::launcherd::bootstrap
