// The only adapter to libssh 0.10. LibsshSession is a log-in over a connected socket, LibsshProgram a program on it. A
// pump item carries the bytes of one program.
//
// libssh is always non-blocking. This code polls the socket itself, so that it can set TCP_QUICKACK again after every
// wake-up. Without TCP_QUICKACK, sshd's Nagle algorithm and our delayed ACK cost 44 ms per log-in.
//
// Thread: one thread at a time uses a session and its programs. First that is the log-in's worker, then the pump's
// thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcherd/bootstrap/pump.h"
#include "launcherd/bootstrap/remote_program.h"
#include "launcherd/ssh/send_window.h"

struct ssh_session_struct;

namespace muster::launcherd::inline ssh {

struct SshLogin {
  std::string host;  // the name under which known_hosts lists the host
  int port = 22;
  std::string user;
  std::vector<std::string> identity_files;  // tried in this order; missing files are skipped
  bool use_agent = true;
  std::string known_hosts;  // the user's file, to which new keys are added
  std::string global_known_hosts;
  bool accept_new_keys = true;
  bool hash_new_keys = false;
  // Called if a key is accepted without asking the user. May be empty.
  std::function<void(const std::string& line)> on_new_host_key;
};

class LibsshSession {
 public:
  LibsshSession();
  ~LibsshSession();
  LibsshSession(const LibsshSession&) = delete;
  LibsshSession& operator=(const LibsshSession&) = delete;

  // Exchanges keys, checks the host key and authenticates. A Failure has kind, detail and is_before_banner set.
  Failure log_in(const SshLogin& login, base::UniqueFd socket, const Waiter& waiter);

  // Repeats `call` while it returns `again`, and waits for the socket in between. Sets `result` to its last result.
  Failure drive(const Waiter& waiter, int again, const std::function<int()>& call, int& result);
  Failure connection_failure() const;  // libssh's reason why the connection ended
  bool is_write_pending() const;
  int poll_fd() const { return poll_fd_.get(); }
  void rearm_quickack() const;
  ssh_session_struct* get() const { return session_; }

  // True if log_in() failed but the `ssh` program may succeed, because libssh cannot use some of the keys.
  bool has_unusable_keys() const { return has_unusable_keys_; }

 private:
  Failure exchange_keys(const SshLogin& login, base::UniqueFd socket, const Waiter& waiter);
  Failure check_host_key(const SshLogin& login);
  Failure authenticate(const SshLogin& login, const Waiter& waiter);
  Failure try_key_file(const std::string& path, bool is_only_one, const Waiter& waiter, bool& is_in);
  Failure try_agent(const Waiter& waiter, bool& is_in);

  ssh_session_struct* session_;
  base::UniqueFd poll_fd_;  // a duplicate, because libssh may close its own descriptor at any time
  std::string tried_;
  std::string skipped_;
  bool has_unusable_keys_ = false;
};

struct WatchedChannel;  // a channel, with the state that libssh's callbacks recorded

// A program that runs on a session.
class LibsshProgram final : public RemoteProgram {
 public:
  LibsshProgram(std::shared_ptr<LibsshSession> session, Pump& pump);
  ~LibsshProgram() override;

  enum class Kind { kCommand, kSubsystem };
  Failure start(Kind kind, const std::string& what, const Waiter& waiter);

  Failure exchange(std::string_view& input, std::string& output, std::string& errors, const Waiter& waiter) override;
  Failure close_input(const Waiter& waiter) override;
  bool has_ended() const override { return has_ended_; }
  int exit_status() const override { return exit_status_; }
  Failure release(std::string_view input, std::function<void(const std::string& line)> on_stderr, const Waiter& waiter,
                  base::UniqueFd& stream) override;

 private:
  Failure move_bytes(std::string_view& input, std::string& errors);
  std::size_t allowed();  // bytes of input that may be sent now
  void take_line(std::string& output);

  std::shared_ptr<LibsshSession> session_;
  Pump& pump_;
  std::unique_ptr<WatchedChannel> channel_;  // null before start() and after release()
  SendWindow window_;
  std::string pending_;  // bytes read from the channel but not yet returned
  bool is_output_open_ = true;
  bool has_ended_ = false;
  int exit_status_ = -1;
};

class LibsshLink final : public HostLink {
 public:
  LibsshLink(std::shared_ptr<LibsshSession> session, Pump& pump, std::string address);
  Failure exec(const std::string& command, const Waiter& waiter, std::unique_ptr<RemoteProgram>& program) override;
  Failure subsystem(const std::string& name, const Waiter& waiter, std::unique_ptr<RemoteProgram>& program) override;
  std::string backend() const override { return "libssh"; }
  std::vector<base::IpAddress> launcher_addresses() const override;
  std::optional<base::IpAddress> host_address() const override;
  std::string address() const override { return address_; }

 private:
  Failure start(LibsshProgram::Kind kind, const std::string& what, const Waiter& waiter,
                std::unique_ptr<RemoteProgram>& program);

  std::shared_ptr<LibsshSession> session_;
  Pump& pump_;
  std::string address_;
};

}  // namespace muster::launcherd::ssh
